why --corpus test/golden/why/sample.csv allreduce
