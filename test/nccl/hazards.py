# SPDX-License-Identifier: Apache-2.0
"""hazards.py SYMTUNER: checks that the faults of NCCL in jax/symtuner/_check.py are rows of
nccl/hazards.h.

`symtuner doctor --list` prints every row of that table. Name, releases, text and cure must agree.
"""

import importlib.util
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def main() -> int:
    listed = subprocess.run([sys.argv[1], "doctor", "--list"], capture_output=True, text=True)
    rows = {}
    for line in listed.stdout.splitlines()[2:]:
        name, _, releases, what, cure = line.strip("| ").split(" | ")
        rows[name.strip("`")] = (releases, f"{what}: {cure}")
    spec = importlib.util.spec_from_file_location("check", ROOT / "jax/symtuner/_check.py")
    check = importlib.util.module_from_spec(spec)
    sys.modules["check"] = check  # dataclasses look up their module in sys.modules
    spec.loader.exec_module(check)
    wrong = 0
    for name, first, last, text in check._KNOWN:
        releases, said = rows.get(name, ("..", "no row of this name"))
        if tuple(map(release, releases.split(".."))) != (first, last) or said != text:
            print(f"FAIL {name}: nccl/hazards.h has {releases}: {said}")
            wrong += 1
    print(f"hazards: {len(check._KNOWN)} of jax compared, {wrong} wrong")
    return wrong != 0 or not check._KNOWN


if __name__ == "__main__":
    sys.exit(main())
