env --defaults >/dev/full
