why allreduce 1MiB --reg none --group 4 --nccl 2.27.7 --machine h200x8
