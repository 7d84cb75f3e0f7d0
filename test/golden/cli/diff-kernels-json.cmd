diff docs/example.rules test/data/kernels.rules --coll allreduce --ranks 2 --json
