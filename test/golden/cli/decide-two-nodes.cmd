decide allreduce 1KiB --machine h200x8 --nodes 2
