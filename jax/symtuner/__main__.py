# SPDX-License-Identifier: Apache-2.0
"""usage: python3 -m symtuner              check whether JAX programs can use symtuner's kernels
       python3 -m symtuner env          print settings for sh, as symtuner run --print does
       python3 -m symtuner COMMAND ...  run the command symtuner COMMAND ...
The check exits with 1 if something is wrong. To list the variables, write
"symtuner env": python3 -m symtuner env is another command."""

import sys

from . import _command
from ._check import check, psum_child

if __name__ == "__main__":
    words = sys.argv[1:]
    if len(words) == 2 and words[0] == "psum":
        sys.exit(psum_child(int(words[1])))
    if words and words[-1] in ("--help", "-h") and words[:-1] in ([], ["env"]):
        print(__doc__, flush=True)
        if words[0] == "env":
            sys.exit(0)
        print(flush=True)
    if words == ["env"]:
        _command.run("run", "--print")
    if words:
        _command.run(*words)
    try:
        report = check()
    except ModuleNotFoundError as e:
        sys.exit(f"symtuner: {e}")
    sys.exit(0 if report.ok else 1)
