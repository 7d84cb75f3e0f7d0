agree --json test/data/ledger/cut.ledger test/data/ledger/rank0.ledger test/data/ledger/other-rules.ledger
