table test/data/kernels.rules --dtype bf17
