why allreduce 64KiB f32 --nccl 2.28.9 --machine h200x8 --brief
