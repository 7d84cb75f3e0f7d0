why allreduce 1MiB --buffers sym --nccl 2.29.7 --machine rtxpro6000x2
