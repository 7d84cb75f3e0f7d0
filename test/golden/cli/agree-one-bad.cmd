agree test/data/ledger/rank0.ledger test/data/ledger/cut.ledger test/data/ledger/rank1.ledger
