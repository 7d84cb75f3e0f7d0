why allreduce 64KiB --buffers sym --nccl 2.26.5 --machine h200x8
