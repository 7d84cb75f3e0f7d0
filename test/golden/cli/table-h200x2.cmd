table docs/example.rules --machine h200x2
