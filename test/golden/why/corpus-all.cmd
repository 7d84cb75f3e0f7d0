why --corpus test/data/nccl-decisions.csv.xz
