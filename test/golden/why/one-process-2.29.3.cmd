why allreduce 4KiB --buffers sym --one-process --nccl 2.29.3 --machine h200x8
