why allreduce 64KiB --buffers sym --nccl 2.31.2 --machine h200x8 --set NCCL_ALGO=ring
