why allgather 1MiB bf16 --buffers none/sym --nccl 2.29.7 --machine h200x4
