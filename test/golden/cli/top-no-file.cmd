top test/data/ledger/none.ledger
