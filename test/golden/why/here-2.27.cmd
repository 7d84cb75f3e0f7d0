why allreduce 4MiB bf16 --buffers sym --nccl 2.27.7 --machine h200x2 --multicast no --no-env --rules docs/example.rules
