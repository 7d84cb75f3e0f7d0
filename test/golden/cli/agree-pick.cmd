agree test/data/ledger/rank0.ledger test/data/ledger/other-pick.ledger
