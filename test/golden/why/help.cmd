why --help
