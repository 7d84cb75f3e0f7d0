why reducescatter 4MiB bf16 --buffers sym --nccl 2.28.9 --machine h200x2 --multicast no --no-env --max-ctas 8 --brief
