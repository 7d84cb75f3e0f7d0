why allreduce 64MiB --buffers sym --nccl 2.31.2 --machine b200x8 --multicast no
