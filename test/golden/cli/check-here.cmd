check --nccl 2.28.9 test/data/provenance.rules
