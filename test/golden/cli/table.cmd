table docs/example.rules --machine h200x8 --multicast no
