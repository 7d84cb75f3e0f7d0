diff a b --svg x
