table test/data/kernels.rules --ranks 3 --dtype torch.int32 --op max --json
