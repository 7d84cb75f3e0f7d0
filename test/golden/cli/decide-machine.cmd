decide allreduce 64KiB --machine h200x4
