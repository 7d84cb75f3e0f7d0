why allreduce 64KiB f32 --buffers sym/none --nccl 2.30.7 --machine h200x4 --general ring/ll
