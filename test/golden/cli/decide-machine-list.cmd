decide allreduce 64KiB --machine list
