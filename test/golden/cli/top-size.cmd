top --sort size test/data/ledger/rank0.ledger
