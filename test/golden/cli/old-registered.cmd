decide allgather 1MiB --registered --ranks 4
