decide allreduce 64kib
