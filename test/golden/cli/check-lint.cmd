check test/data/lint.rules
