check docs/example.rules
