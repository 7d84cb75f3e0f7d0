table docs/example.rules --bytes 1KiB..1MiB --nccl 2.31 --ranks 1 --machine h200x8 --multicast no
