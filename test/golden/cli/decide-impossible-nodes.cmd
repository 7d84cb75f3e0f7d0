decide allreduce 1KiB --ranks 8 --nodes 3
