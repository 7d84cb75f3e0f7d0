why allreduce 4KB --nccl 2.28.9 --machine h200x8
