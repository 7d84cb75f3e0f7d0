why allreduce 3 f32 --nccl 2.28.9 --machine h200x8
