why allreduce 4MiB bf16 --buffers sym --nccl 2.28.9 --machine h200x4 --no-env --min-ctas 16 --brief
