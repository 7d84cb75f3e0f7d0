decide allreduce 1 --links nvswitch
