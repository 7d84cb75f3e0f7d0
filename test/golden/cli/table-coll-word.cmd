table docs/example.rules --coll allredcue
