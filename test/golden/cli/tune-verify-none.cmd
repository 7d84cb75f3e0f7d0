tune --verify docs/example.rules
