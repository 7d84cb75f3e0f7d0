table test/golden/bad/bytes_kb.rules
