tune --ledger test/data/ledger/cut.ledger
