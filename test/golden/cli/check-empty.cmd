check /dev/null test/data/empty.rules
