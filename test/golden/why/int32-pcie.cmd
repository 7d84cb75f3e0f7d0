why allreduce 1MiB i32 --buffers sym --nccl 2.30.7 --machine l40sx4
