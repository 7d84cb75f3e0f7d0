decide allreduce 64KiB --machine h100x8
