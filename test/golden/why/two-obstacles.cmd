why allreduce 1MiB --buffers none --group 4 --nccl 2.27.7 --machine h200x8
