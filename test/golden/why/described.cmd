why allreduce 4MiB bfloat16 --buffers sym --nccl 2.28.9 --machine "gpu=NVIDIA H200; links=nvlink; multicast=no" --ranks 2 --brief
