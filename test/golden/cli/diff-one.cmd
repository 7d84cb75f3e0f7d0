diff docs/example.rules
