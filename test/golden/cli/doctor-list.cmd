doctor --list
