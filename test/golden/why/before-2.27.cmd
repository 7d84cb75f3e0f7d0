why allreduce 64KiB --reg sym --nccl 2.26.5 --machine h200x8
