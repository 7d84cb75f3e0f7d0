why allgather 1MiB bf16 --reg none/sym --nccl 2.29.7 --machine h200x4
