# SPDX-License-Identifier: Apache-2.0
"""no_jax.py - what the package symtuner says in a Python without jax.

Every check runs in a Python of its own. If that Python has jax, the check hides it.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
HIDE = f"""
import runpy, sys
class NoJax:
    def find_spec(self, name, path=None, target=None):
        if name == HIDDEN or (name == "jaxlib" and HIDDEN == "jax"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, NoJax())
sys.path.insert(0, {str(ROOT / "jax")!r})
"""
CURE = "pip install jax. For PyTorch use symtuner run and symtuner doctor, which need no jax"


def python(text: str, hidden: str = "jax", folder: str = "/") -> subprocess.CompletedProcess:
    words = [sys.executable, "-c", f"HIDDEN = {hidden!r}{HIDE}{text}"]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=60)


failed = 0


def check(what: str, right: bool, done: subprocess.CompletedProcess) -> None:
    global failed
    if not right:
        failed += 1
        print(f"FAIL {what}: exit {done.returncode}, {done.stdout}{done.stderr}")


# in the root of the repository, "import jax" finds the folder jax/
for hidden, folder in ("jax", "/"), ("jax.numpy", str(ROOT)):
    text = 'sys.argv = ["symtuner"]; runpy.run_module("symtuner", run_name="__main__")'
    run = python(text, hidden, folder)
    check(
        f"python -m symtuner without {hidden}",
        run.returncode == 1
        and run.stdout == ""
        and run.stderr.startswith(f"symtuner: symtuner.check() needs jax, which {sys.executable} ")
        and run.stderr.endswith(CURE + "\n")
        and run.stderr.count("\n") == 1,
        run,
    )
# "python3 -m symtuner env" is not "symtuner env", and must not show the help of the latter
for words in ["env", "--help"], ["env", "-h"]:
    run = python(f'sys.argv[1:] = {words}; runpy.run_module("symtuner", run_name="__main__")')
    check(
        f"python -m symtuner {words}",
        run.returncode == 0
        and run.stdout.startswith("usage: python3 -m symtuner ")
        and "settings for sh" in run.stdout
        and "usage: symtuner env" not in run.stdout
        and run.stderr == "",
        run,
    )
for name in "install", "all_reduce", "report", "groups", "close", "disabled":
    run = python(f"import symtuner; symtuner.{name}")
    last = run.stderr.rstrip("\n").rpartition("\n")[2]
    check(
        f"symtuner.{name}",
        last.startswith(f"ModuleNotFoundError: symtuner.{name} needs jax") and last.endswith(CURE),
        run,
    )
run = python("import symtuner; print(symtuner.__version__)")
check("import symtuner", run.returncode == 0 and not run.stderr, run)
# if a module other than jax is missing, the error must not say that jax is missing
run = python("import symtuner; symtuner.report", "symtuner._say")
check("symtuner._say", run.stderr.endswith("No module named 'symtuner._say'\n"), run)

print("no_jax: " + (f"{failed} failed" if failed else "all fine"))
sys.exit(failed > 0)
