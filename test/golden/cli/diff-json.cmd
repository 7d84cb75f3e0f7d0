diff docs/example.rules test/demo/demo.rules --ranks 8 --coll allreduce --json --machine h200x8 --multicast no
