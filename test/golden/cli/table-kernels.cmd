table test/data/kernels.rules --ranks 2,3 --gpu "NVIDIA H200" --links nvlink --multicast no
