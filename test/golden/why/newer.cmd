why allreduce 4MiB bf16 --buffers sym --nccl 2.33.1 --machine b200x8 --brief
