tune --rounds 2
