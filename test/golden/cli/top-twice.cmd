top --sort calls test/data/ledger/rank0.ledger test/data/ledger/rank0.ledger
