why allreduce 64KiB --machine h200x8 --rules nofile
