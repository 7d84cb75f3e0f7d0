table docs/example.rules --nodes 1048577
