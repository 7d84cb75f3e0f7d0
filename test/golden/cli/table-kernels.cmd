table test/data/kernels.rules --ranks 2,3 --machine h200x8 --multicast no
