top docs/example.rules
