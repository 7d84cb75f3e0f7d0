check docs/example.rules --here
