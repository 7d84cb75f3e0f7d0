env --json --markdown
