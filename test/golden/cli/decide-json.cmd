decide allreduce 64KiB --rules docs/example.rules --machine h200x8 --multicast no --ranks 4 --json
