why allreduce 4KiB --nccl 2.28.9 --machine h200x8 --set NCCL_SYM_CTAS=8x
