env --json
