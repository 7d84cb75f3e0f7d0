why allreduce 4KiB --reg sym --nccl 2.28.9 --machine h200x8 --brief
