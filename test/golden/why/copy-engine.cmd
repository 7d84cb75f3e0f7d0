why allgather 64MiB f32 --buffers none/sym --nccl 2.29.3 --machine b200x8
