decide allreduce 64KiB --ranks 2 --machine 'gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=2'
