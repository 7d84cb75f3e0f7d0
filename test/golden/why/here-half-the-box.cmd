why allreduce 4MiB bf16 --buffers sym --nccl 2.28.9 --machine h200x8 --ranks 4 --multicast no --no-env --rules docs/example.rules
