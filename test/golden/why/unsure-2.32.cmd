why allgather 64KiB --buffers sym --nccl 2.32.6 --machine b200x8
