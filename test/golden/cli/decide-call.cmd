decide reducescatter 1MiB/call --ranks 4 --json
