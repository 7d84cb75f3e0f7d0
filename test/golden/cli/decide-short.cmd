decide allreduce 1KiB -x
