decide allreduce 1KiB --rules --json
