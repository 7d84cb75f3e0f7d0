diff docs/example.rules test/demo/demo.rules --ranks 8 --coll allreduce --json --gpu 'NVIDIA H200' --links nvlink --multicast no
