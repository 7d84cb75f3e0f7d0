env --help
