top /dev/fd/3 3<<X
$(printf %05000d 7)
X
