table docs/example.rules --coll all --ranks 2,8 --links nvlink --gpu 'NVIDIA H200' --multicast no
