table docs/example.rules --coll all --ranks 2,8 --machine h200x8 --multicast no
