why allreduce 64KiB --buffers sym --group 4 --nccl 2.27.7 --machine h200x8
