why allreduce 64MiB --buffers sym --nccl 2.29.7 --machine h200x8 --set NCCL_P2P_DISABLE=1 --brief
