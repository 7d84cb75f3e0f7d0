why allreduce 1MiB --reg sym --nccl 2.28.9 --machine rtxpro6000x2
