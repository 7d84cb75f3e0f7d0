decide allgather 17179869183GiB/rank --ranks 4
