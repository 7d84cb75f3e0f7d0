top /dev/zero
