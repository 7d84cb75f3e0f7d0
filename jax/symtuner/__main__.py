# SPDX-License-Identifier: Apache-2.0
"""python -m symtuner: print the report of check(). Exit status 1 if something is wrong."""

import sys

from ._check import check, psum_child

if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "psum":
        sys.exit(psum_child(int(sys.argv[2])))
    if len(sys.argv) > 1:
        sys.exit(f"usage: python -m symtuner   ({sys.argv[1]!r} is unknown)")
    sys.exit(0 if check().ok else 1)
