tune --dtype i32
