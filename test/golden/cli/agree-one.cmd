agree test/data/ledger/rank0.ledger
