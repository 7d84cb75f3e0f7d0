decide allreduce 64KiB --rules docs/example.rules --gpu 'NVIDIA H200' --links nvlink --multicast no --ranks 4
