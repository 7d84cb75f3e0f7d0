why --corpus test/golden/why/no-such.csv
