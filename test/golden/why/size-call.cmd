why allgather 1MiB/call bf16 --buffers=sym --nccl 2.28.9 --machine h200x8 --brief
