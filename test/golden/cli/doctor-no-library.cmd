doctor --nccl docs/design.md
