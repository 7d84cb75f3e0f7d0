table docs/example.rules --json >/dev/full
