diff docs/example.rules test/demo/demo.rules --ranks 8 --machine h200x8 --multicast no
