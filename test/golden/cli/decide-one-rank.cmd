decide allreduce 4096 --ranks 1
