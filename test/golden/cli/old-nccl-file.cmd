bench --nccl 2.28.9
