check --nccl 2.30.7 test/data/provenance.rules
