table docs/example.rules --bytes 1KiB..1MiB --nccl 2.31 --ranks 1 --gpu 'NVIDIA H200' --links nvlink --multicast no
