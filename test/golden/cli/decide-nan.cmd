decide allreduce 1 --table nan,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
