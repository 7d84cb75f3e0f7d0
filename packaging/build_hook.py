# SPDX-License-Identifier: Apache-2.0
"""Build the wheel's binaries with make, and put the files that `make install` installs into the
wheel.

`make wheel` sets two variables: SYMTUNER_WHEEL_TREE names a folder with these files, and
SYMTUNER_WHEEL_PLATFORM the platform that they are for. Without these variables this hook calls
`make wheel-tree`, and the wheel is for this box. Kernels are built if nvcc and the headers of CUDA
and NCCL are there, unless AR_ARCHS is set to "" in the environment.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface



def with_kernels() -> bool:
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    nvcc = os.environ.get("NVCC", "nvcc")
    found = shutil.which(nvcc, path=f"{os.environ.get('PATH', '')}:{home}/bin")
    return bool(os.environ.get("AR_ARCHS", "all") and found)


def xla_headers() -> list[str]:
    """Return the argument for make that names the folder of XLA's C header."""
    jaxlib = importlib.util.find_spec("jaxlib")
    places = jaxlib.submodule_search_locations if jaxlib else None
    return [f"FFI_INC={p}/include" for p in places or [] if pathlib.Path(p, "include/xla").is_dir()]


class BuildHook(BuildHookInterface):
    def dependencies(self) -> list[str]:
        built = os.environ.get("SYMTUNER_WHEEL_TREE")
        return ["jaxlib>=0.9.2"] if with_kernels() and not built else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # an editable install uses build/ of the source tree
            return
        tree = os.environ.get("SYMTUNER_WHEEL_TREE")
        if not tree:
            tree = str(pathlib.Path(self.root, "build/wheel/tree"))
            self._make(tree)
        platform = os.environ.get("SYMTUNER_WHEEL_PLATFORM")
        build_data["tag"] = "py3-none-" + (platform or sysconfig.get_platform().replace("-", "_"))
        build_data["pure_python"] = False
        # a wheel cannot have links: it gets each library once, under the name that programs open
        for file in [*pathlib.Path(tree).glob("bin/*"), *pathlib.Path(tree).glob("lib/libsym*.so")]:
            place = f"symtuner/{file.parent.name}/{file.name}"
            build_data["force_include"][str(file.resolve())] = place
        build_data["force_include"][str(pathlib.Path(tree, "include"))] = "symtuner/include"
        build_data["shared_data"][str(pathlib.Path(tree, "share"))] = "share"

    def _make(self, tree: str) -> None:
        shutil.rmtree(tree, ignore_errors=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        environment["PATH"] += f":{environment.get('CUDA_HOME', '/usr/local/cuda')}/bin"
        words = ["make", f"-j{os.cpu_count()}", "wheel-tree", f"TREE={tree}", *xla_headers()]
        compiler = (environment.get("CC", "").split() or ["cc"])[0]
        for needed in "make", compiler:
            if not shutil.which(needed, path=environment["PATH"]):
                raise SystemExit(
                    f"symtuner: building it needs make and a C compiler; there is no {needed}"
                )
        if subprocess.run(words, cwd=self.root, env=environment).returncode:
            raise SystemExit("symtuner: make failed; what it printed is above")
        if not pathlib.Path(tree, "lib/libsymtuner_ar.so").exists():
            self.app.display_warning(
                "symtuner: without kernels: nvcc, or a header of CUDA or NCCL, is missing; "
                "`make kernels` says which"
            )
