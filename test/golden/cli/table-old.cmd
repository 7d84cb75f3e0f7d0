table docs/example.rules --nccl 2.26
