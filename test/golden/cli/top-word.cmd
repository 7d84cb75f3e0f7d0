top test/data/ledger/word.ledger
