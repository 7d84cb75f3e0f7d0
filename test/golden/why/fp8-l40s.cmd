why allreduce 4KiB f8e4m3 --nccl 2.28.9 --machine l40sx4
