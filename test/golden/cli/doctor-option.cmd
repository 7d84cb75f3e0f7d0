doctor --what
