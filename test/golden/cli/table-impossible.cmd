table docs/example.rules --nodes 3 --ranks 8
