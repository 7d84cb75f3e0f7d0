decide allreduce 1 --ranks 0
