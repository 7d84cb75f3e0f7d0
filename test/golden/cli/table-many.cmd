table docs/example.rules --ranks 2,3,4,5,6,7,8 --machine h200x8 --multicast no
