why --corpus test/golden/why/sample-wrong.csv
