check --hear docs/example.rules
