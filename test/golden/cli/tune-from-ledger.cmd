tune --from test/data/ledger/rank0.ledger
