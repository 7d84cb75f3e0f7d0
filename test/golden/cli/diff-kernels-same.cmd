diff test/data/kernels.rules test/data/kernels.rules --ranks 2
