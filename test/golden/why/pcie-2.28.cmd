why allreduce 1MiB --buffers sym --nccl 2.28.9 --machine rtxpro6000x2
