table docs/example.rules --ranks 2,3,4,5,6,7,8 --gpu 'NVIDIA H200' --links nvlink --multicast no
