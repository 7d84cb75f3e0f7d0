diff docs/example.rules test/data/kernels.rules --ranks 1
