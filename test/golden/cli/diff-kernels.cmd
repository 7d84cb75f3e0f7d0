diff test/data/kernels.rules docs/example.rules --coll allreduce --ranks 3 --bytes 256..4MiB --machine h200x8 --multicast no
