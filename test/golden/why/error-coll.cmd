why alreduce 4KiB
