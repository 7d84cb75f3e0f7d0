why allreduce 4MiB bf16 --nccl 2.30.7 --machine h200x8 --multicast no --no-env --rules docs/example.rules
