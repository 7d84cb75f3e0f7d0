table docs/example.rules --nodes 2x
