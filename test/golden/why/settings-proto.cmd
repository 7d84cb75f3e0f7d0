why allreduce 4KiB --nccl 2.30.7 --buffers sym/none --machine h200x8 --set NCCL_PROTO=Simple --brief
