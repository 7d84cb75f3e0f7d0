decide allgather 256KiB/rank --ranks 4
