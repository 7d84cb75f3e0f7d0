decide allreduce 1KiB --rnaks 4
