decide allreduce 1KiB --bogus
