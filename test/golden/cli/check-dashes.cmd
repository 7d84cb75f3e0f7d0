check -- --here
