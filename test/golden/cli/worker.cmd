worker
