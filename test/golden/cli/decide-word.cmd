decide allreduce 1 bf16
