why allgather 4MiB bf16 --reg sym --nccl 2.32.3 --machine b200x8 --brief
