why allgather 4MiB --nccl 2.28.9 --machine h200x8 --set NCCL_ALGO=Tree --brief
