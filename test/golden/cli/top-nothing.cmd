top --json
