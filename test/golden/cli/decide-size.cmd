decide allreduce 64KB
