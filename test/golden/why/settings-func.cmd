why allreduce 4MiB --nccl 2.29.7 --machine rtxpro6000x2 --set 'NCCL_PROTO=^ll;allreduce:LL128' --set 'NCCL_ALGO=^tree;allgather:tree' --brief
