diff test/data/kernels.rules docs/example.rules --coll allreduce --ranks 3 --bytes 256..4MiB --gpu "NVIDIA H200" --links nvlink --multicast no
