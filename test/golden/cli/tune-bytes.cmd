tune --bytes 1000..2000
