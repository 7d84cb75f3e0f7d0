decide allredcue 1
