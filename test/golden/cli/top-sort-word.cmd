top --sort colour test/data/ledger/rank0.ledger
