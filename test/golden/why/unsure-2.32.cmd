why allgather 64KiB --reg sym --nccl 2.32.6 --machine b200x8
