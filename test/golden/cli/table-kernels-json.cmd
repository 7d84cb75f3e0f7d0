table test/data/kernels.rules --ranks 3 --dtype i32 --op max --json
