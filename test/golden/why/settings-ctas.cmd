why allreduce 64MiB --buffers sym --nccl 2.28.9 --machine h200x8 --multicast no --set NCCL_MIN_CTAS=100 --set NCCL_MAX_CTAS=12 --brief
