# SPDX-License-Identifier: Apache-2.0
"""build_hook.py - what pip install says if it cannot build: one line, and no traceback.

Calls packaging/build_hook.py with a PATH that has only some programs, and without hatchling.
"""

import importlib.util
import os
import pathlib
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
for name in "", ".builders", ".builders.hooks", ".builders.hooks.plugin":
    sys.modules["hatchling" + name] = types.ModuleType("hatchling" + name)
interface = types.ModuleType("hatchling.builders.hooks.plugin.interface")
interface.BuildHookInterface = object
sys.modules[interface.__name__] = interface
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("build_hook", ROOT / "packaging/build_hook.py")
build_hook = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build_hook)

NEEDS = "symtuner: building it needs make and a C compiler; there is no "
failed = 0
for programs, cc, expected in (
    ({}, None, NEEDS + "make"),
    ({"make": 0}, None, NEEDS + "cc"),
    ({"make": 0, "cc": 0}, "gcc-99 -m64", NEEDS + "gcc-99"),
    ({"make": 2, "cc": 0}, None, "symtuner: make failed; what it printed is above"),
    ({"make": 2, "gcc-99": 0}, "gcc-99 -m64", "symtuner: make failed; what it printed is above"),
):
    with tempfile.TemporaryDirectory() as folder:
        for name, status in programs.items():
            pathlib.Path(folder, name).write_text(f"#!/bin/sh\nexit {status}\n")
            pathlib.Path(folder, name).chmod(0o755)
        os.environ.update(PATH=folder, CUDA_HOME=folder)
        os.environ.pop("CC", None)
        if cc:
            os.environ["CC"] = cc
        hook = build_hook.BuildHook()
        hook.root = folder
        try:
            hook._make(folder + "/tree")
            said = "nothing"
        except BaseException as e:  # SystemExit is what pip shows without a traceback
            said = str(e) if isinstance(e, SystemExit) else repr(e)
    if said != expected:
        print(f"FAIL {programs}, CC={cc}: {said}, not {expected}")
        failed = 1
print("build_hook: " + ("failed" if failed else "all fine"))
sys.exit(failed)
