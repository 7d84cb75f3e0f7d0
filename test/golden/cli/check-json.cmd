check --json docs/example.rules test/golden/bad/bytes_kb.rules test/golden/rules/lint.rules
