agree test/data/ledger/comment.ledger
