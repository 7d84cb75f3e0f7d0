top test/data/ledger/nul.ledger
