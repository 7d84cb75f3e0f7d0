help whi
