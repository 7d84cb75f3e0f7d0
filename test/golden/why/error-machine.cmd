why allreduce 4KiB --nccl 2.28.9 --machine h300
