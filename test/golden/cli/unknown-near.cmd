whi allreduce
