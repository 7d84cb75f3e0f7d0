diff a b --html x
