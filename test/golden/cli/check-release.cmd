check --nccl 9 docs/example.rules
