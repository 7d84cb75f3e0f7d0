table test/data/kernels.rules --op premulsum
