decide allreduce --json
