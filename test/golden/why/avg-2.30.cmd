why allreduce 64KiB bf16 --op avg --buffers sym --nccl 2.30.7 --machine h200x8
