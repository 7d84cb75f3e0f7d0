why allreduce 281474976710656el f64 --group 1048576 --machine h200x8 --nccl 2.30.7 --brief
