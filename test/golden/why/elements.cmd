why reducescatter 16384el bf16 --buffers sym --nccl 2.28.9 --machine h200x8 --ranks 4
