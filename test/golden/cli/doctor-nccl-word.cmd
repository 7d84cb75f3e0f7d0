doctor --nccl two
