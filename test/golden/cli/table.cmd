table docs/example.rules --gpu 'NVIDIA H200' --links nvlink --multicast no
