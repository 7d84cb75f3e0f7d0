table docs/example.rules --json --ranks 8 --gpu 'NVIDIA H200' --links nvlink --multicast no
