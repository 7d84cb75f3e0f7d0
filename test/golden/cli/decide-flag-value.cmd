decide allreduce 1KiB --json=yes
