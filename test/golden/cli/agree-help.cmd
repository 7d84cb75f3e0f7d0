agree --help
