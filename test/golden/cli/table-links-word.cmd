table docs/example.rules --links pci
