check --nccl
