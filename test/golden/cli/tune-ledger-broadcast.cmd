tune --ledger test/data/ledger/broadcast.ledger
