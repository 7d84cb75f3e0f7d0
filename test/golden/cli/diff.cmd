diff docs/example.rules test/demo/demo.rules --ranks 8 --gpu 'NVIDIA H200' --links nvlink --multicast no
