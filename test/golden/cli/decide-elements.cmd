decide allreduce 4el
