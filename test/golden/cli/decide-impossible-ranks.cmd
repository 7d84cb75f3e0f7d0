decide allreduce 1KiB --machine h200x8 --ranks 16
