agree --json test/data/ledger/rank0.ledger test/data/ledger/other-rules.ledger
