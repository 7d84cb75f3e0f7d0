diff docs/example.rules docs/example.rules >&-
