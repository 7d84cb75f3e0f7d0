decide allreduce 64KiB --machine 'gpu=NVIDIA H200; lnks=nvlink'
