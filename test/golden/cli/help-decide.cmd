help decide
