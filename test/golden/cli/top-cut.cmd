top test/data/ledger/cut.ledger
