table docs/example.rules --ranks two
