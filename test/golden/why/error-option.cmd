why allreduce 4KiB --rank 3 --nccl 2.28.9 --machine h200x8
