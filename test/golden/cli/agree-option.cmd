agree --what test/data/ledger/rank0.ledger
