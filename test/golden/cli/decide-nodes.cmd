decide allreduce 1 --nodes 9
