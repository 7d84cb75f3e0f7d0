why allgather 64KiB --buffers sym --nccl 2.28.9 --machine h200x8 --set NCCL_SYM_KERNEL=AllReduce_AGxLL_R
