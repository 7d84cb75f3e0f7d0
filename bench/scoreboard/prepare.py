#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetch the other projects' kernels that scoreboard.py measures, small enough to copy to another
machine.

    python3 bench/scoreboard/prepare.py [--to build/peers] [--archs 90] [--python 3.12]
                                        [--only NAME,...]

It needs pip, nvcc and xz, but no GPU. It downloads wheels from PyPI, compiles the sources of the
kernels, and writes these files to the folder of --to:

    lib/*.so                   kernels of SGLang and FlashInfer, as modules of tvm-ffi
    tvm_ffi/                   the package that loads them, for the Python of --python
    sglang_config.py           SGLang's own choice of algorithm by size
    nccl-RELEASE.so.2.xz       NCCL with the code of the GPU generations of --archs only
    about.json                 which projects are there, with their versions

None of these files is part of symtuner; each project's licence holds for its files.
"""
import argparse
import concurrent.futures
import json
import lzma
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import zipfile

SGLANG, FLASHINFER, TVM_FFI = "0.5.23", "0.7.2.post1", "0.1.11"
NCCL = ["2.30.7", "2.32.3"]
RANKS = (2, 4, 8)

# Each module has the name of its file, its project, its sources, and for SGLang a map from exported
# names to functions.
REDUCE = "AllReduceKernel<{type}, {ranks}, true>::run"
MODULES = [("sglang_communicator", "sglang", ["distributed/registry.cuh"],
            {"register_communicator": "register_communicator"})]
MODULES += [(f"sglang_{name}_{ranks}", "sglang", ["distributed/custom_all_reduce.cuh"],
             {"all_reduce": REDUCE.format(type=word, ranks=ranks)})
            for name, word in (("bf16", "bf16_t"), ("f32", "fp32_t")) for ranks in RANKS]
MODULES += [("flashinfer_vllm", "flashinfer", ["vllm_custom_all_reduce.cu"], {}),
            ("flashinfer_trtllm", "flashinfer", ["trtllm_allreduce_fusion.cu"], {}),
            ("flashinfer_pcie", "flashinfer", ["pcie_ipc_all_reduce.cu"], {}),
            ("flashinfer_pcie_halves", "flashinfer",
             ["pcie_ipc_all_gather.cu", "pcie_ipc_reduce_scatter.cu"], {})]


def download(folder, package, version, python):
    """Download a wheel and return its path. ``python`` is None if the wheel serves all Pythons."""
    for_python = ["--python-version", python, "--implementation", "cp"] if python else []
    # pip wants each tag named
    platforms = [word for n in [f"_2_{n}" for n in range(34, 16, -1)] + ["2014"]
                 for word in ("--platform", f"manylinux{n}_x86_64")]
    subprocess.run([sys.executable, "-m", "pip", "-q", "download", "--no-deps",
                    "--only-binary=:all:", "-d", str(folder), *for_python, *platforms,
                    f"{package}=={version}"], check=True)
    name = package.replace("-", "_") + "-" + version
    return next(path for path in folder.iterdir() if path.name.startswith(name + "-"))


def unpack(wheel, into, *beginnings):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into,
                           [name for name in archive.namelist() if name.startswith(beginnings)])


def wrapper(sources, exports):
    """Return C++ source that includes the headers ``sources`` and exports functions of them.
    SGLang's own loader writes the same source."""
    heads = ["container/tensor.h", "dtype.h", "error.h", "extra/c_env_api.h", "function.h"]
    return "\n".join([f"#include <tvm/ffi/{head}>" for head in heads]
                     + [f'#include "{source}"' for source in sources] + ["namespace sglang {"]
                     + [f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, ({what}));"
                        for name, what in exports.items()] + ["}", ""])


def command(module, root, to, archs, nvcc="nvcc"):
    """Return the command that compiles ``module`` from the wheels unpacked in ``root``."""
    name, project, sources, exports = module
    if project == "sglang":
        where = root / "sglang/kernels/jit"
        include, flags = [where / "include"], ["-std=c++20"]
        flags += ["-DSGL_CUDA_ARCH=%s0" % archs[0]]
        files = [root / f"{name}.cu"]
        files[0].write_text(wrapper([where / "csrc" / source for source in sources], exports))
    else:
        where = root / "flashinfer/data"
        include = [where / "include", where / "csrc", where / "spdlog/include"]
        flags = ["-std=c++17", "-static-global-template-stub=false"]
        flags += ["-DFLASHINFER_ENABLE_FP8_E8M0", "-DFLASHINFER_ENABLE_FP4_E2M1", "-use_fast_math",
                  "-DNDEBUG"]
        files = [where / "csrc" / source for source in sources]
    include += [root / "tvm_ffi/include"]
    stubs = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib64/stubs"
    return [nvcc, "-O3", "-shared", "-Xcompiler", "-fPIC", "--expt-relaxed-constexpr", *flags,
            *[f"-gencode=arch=compute_{target(a)},code=sm_{target(a)}" for a in archs],
            *[word for path in include for word in ("-isystem", str(path))],
            "-o", str(to / f"{name}.so"), *map(str, files),
            "-L" + str(root / "tvm_ffi/lib"), "-ltvm_ffi", "-L" + str(stubs), "-lcuda"]


def target(arch):
    """Return the GPU generation as these projects write it. From 90 on, an "a" behind the number
    asks for the features that only this generation has."""
    return f"{arch}a" if arch >= 90 else str(arch)


def thin(data, keep):
    """``data`` is a bytearray with fat binaries. Overwrite with zeros all code for GPU generations
    that are not in ``keep``, and all PTX. Nothing moves. Returns how many bytes were
    overwritten."""
    zeroed, at = 0, data.find(b"\x50\xed\x55\xba")
    while at >= 0:
        head, size = struct.unpack_from("<HQ", data, at + 6)
        entry, end = at + head, at + head + size
        if end > len(data):
            at = data.find(b"\x50\xed\x55\xba", at + 4)
            continue
        while entry < end:
            kind, _, head_of_entry, length = struct.unpack_from("<HHIQ", data, entry)
            arch = struct.unpack_from("<I", data, entry + 28)[0]
            if head_of_entry == 0 or entry + head_of_entry + length > len(data):
                break
            if kind == 1 or arch not in keep:
                start = entry + head_of_entry
                data[start:start + length] = bytes(length)
                zeroed += length
            entry += head_of_entry + length
        at = data.find(b"\x50\xed\x55\xba", end)
    return zeroed


def nccl(work, to, release, archs):
    wheel = download(work, "nvidia-nccl-cu13", release, None)
    with zipfile.ZipFile(wheel) as archive:
        data = bytearray(archive.read("nvidia/nccl/lib/libnccl.so.2"))
    thin(data, archs)
    with lzma.open(to / f"nccl-{release}.so.2.xz", "wb", preset=1) as file:
        file.write(data)
    wheel.unlink()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", default="build/peers")
    parser.add_argument("--archs", default="90", help="GPU generations, with commas")
    parser.add_argument("--python", default="3.12",
                        help="Python version of the machine that measures")
    parser.add_argument("--only", default="sglang,flashinfer,nccl")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    to, only = pathlib.Path(args.to).resolve(), args.only.split(",")
    archs = [int(a) for a in args.archs.split(",")]
    work = to / "work"
    shutil.rmtree(work, ignore_errors=True)
    for folder in (work / "wheels", to / "lib"):
        folder.mkdir(parents=True, exist_ok=True)
    about_file = to / "about.json"
    about = json.loads(about_file.read_text()) if about_file.exists() else {}

    tvm = download(work / "wheels", "apache-tvm-ffi", TVM_FFI, args.python)
    unpack(tvm, work, "tvm_ffi/")
    shutil.rmtree(to / "tvm_ffi", ignore_errors=True)
    shutil.copytree(work / "tvm_ffi", to / "tvm_ffi",
                    ignore=shutil.ignore_patterns("include", "*.pyx", "*.pxi", "src"))
    about["tvm_ffi"] = TVM_FFI
    if "sglang" in only:
        wheel = download(work / "wheels", "sglang", SGLANG, args.python)
        unpack(wheel, work, "sglang/kernels/jit/include/", "sglang/kernels/jit/csrc/distributed/",
               "sglang/srt/distributed/device_communicators/configs/")
        configs = work / "sglang/srt/distributed/device_communicators/configs"
        shutil.copy(configs / "custom_all_reduce_v2.py",
                    to / "sglang_config.py")
    if "flashinfer" in only:
        wheel = download(work / "wheels", "flashinfer-python", FLASHINFER, None)
        unpack(wheel, work, "flashinfer/data/include/", "flashinfer/data/csrc/tvm_ffi_utils",
               "flashinfer/data/csrc/pcie_ipc", "flashinfer/data/csrc/trtllm_allreduce",
               "flashinfer/data/csrc/vllm", "flashinfer/data/spdlog/")
    shutil.rmtree(work / "wheels")

    def build(module):
        done = subprocess.run(command(module, work, to / "lib", archs), capture_output=True,
                              text=True)
        return module, done.returncode, done.stderr

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for module, status, said in pool.map(build, [m for m in MODULES if m[1] in only]):
            name, project = module[:2]
            print(f"{name}: {'compiled' if status == 0 else 'NOT compiled: ' + said[-800:]}",
                  flush=True)
            if status == 0:
                about[project] = {"sglang": SGLANG, "flashinfer": FLASHINFER}[project]
    about_file.write_text(json.dumps(about, indent=1) + "\n")
    for release in NCCL if "nccl" in only else []:
        nccl(work, to, release, archs)
        print(f"NCCL {release}: {(to / f'nccl-{release}.so.2.xz').stat().st_size >> 20} MiB",
              flush=True)
        about["nccl"] = sorted({*about.get("nccl", []), release})
        about_file.write_text(json.dumps(about, indent=1) + "\n")
    shutil.rmtree(work)
    size = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    print(f"{to}: {size / 2**20:.1f} MiB to carry")


if __name__ == "__main__":
    main()
