table docs/example.rules --bytes 1KB..2MiB
