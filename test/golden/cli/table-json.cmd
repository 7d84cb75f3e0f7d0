table docs/example.rules --json --ranks 8 --machine h200x8 --multicast no
