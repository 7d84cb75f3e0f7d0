diff docs/example.rules none.rules
