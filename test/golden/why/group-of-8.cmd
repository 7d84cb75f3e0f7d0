why reducescatter 256KiB --nccl 2.28.9 --machine rtxpro6000x2 --group 8 --brief
