why allreduce 1MiB --nccl 2.28.9 --machine h200x8 --nodes 2 --brief
