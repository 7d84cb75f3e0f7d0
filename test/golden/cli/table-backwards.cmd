table docs/example.rules --bytes 1MiB..1KiB
