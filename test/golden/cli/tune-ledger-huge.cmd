tune --ledger test/data/ledger/huge.ledger --ranks 1
