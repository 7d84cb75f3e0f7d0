agree test/data/ledger/id0-a.ledger test/data/ledger/id0-b.ledger
