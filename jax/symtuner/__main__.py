# SPDX-License-Identifier: Apache-2.0
"""python -m symtuner: print the report of check(). The exit status is 1 if something is wrong.

python -m symtuner env: print what a job script must export.
python -m symtuner WORDS, with any other WORDS: run the command symtuner with these WORDS.
"""

import sys

from . import _command
from ._check import check, psum_child

if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "psum":
        sys.exit(psum_child(int(sys.argv[2])))
    if sys.argv[1:] == ["env"]:
        _command.run("run", "--print")
    if len(sys.argv) > 1:
        _command.run(*sys.argv[1:])
    try:
        report = check()
    except ModuleNotFoundError as e:
        sys.exit(f"symtuner: {e}")
    sys.exit(0 if report.ok else 1)
