decide allreduce --ranks=4 --buffers=sym/comm -- 64KiB
