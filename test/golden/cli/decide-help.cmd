decide --help
