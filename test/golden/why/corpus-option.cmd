why --corpus test/golden/why/sample.csv --json --ranks 4
