why allreduce 4KiB --nccl 2.x --machine h200x8
