#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wheels.py LIBRARY - calls a real NCCL by ctypes and prints its answers. Needs no GPU.

run.sh runs it with and without the drop-in. Both outputs must be the same, except for the line
"stands in front of", which lists the functions whose address is not in NCCL. The line "id" tells
whether the drop-in has written its mark into the unused end of an ncclUniqueId.
"""
import ctypes
import os
import sys

path = sys.argv[1]
nccl = ctypes.CDLL(path)


def owner(function):
    """Return the name of the library in which the function lies."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    for line in open("/proc/self/maps"):
        span = line.split()[0].split("-")
        if int(span[0], 16) <= address < int(span[1], 16):
            return os.path.basename(line.split()[-1])
    return "?"


version = ctypes.c_int()
print("version", nccl.ncclGetVersion(ctypes.byref(version)), version.value)
names = ["AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Send", "GroupStart", "GroupEnd",
         "CommInitRank", "CommInitRankConfig", "CommInitAll", "CommSplit", "CommShrink", "CommGrow",
         "CommDestroy", "CommAbort", "CommRevoke", "CommSuspend", "CommWindowRegister", "AlltoAll",
         "AllReduceConfig", "GetErrorString", "GetUniqueId", "MemAlloc", "ParamBind"]
there = [name for name in names if hasattr(nccl, "nccl" + name)]
print("has", *there)
print("stands in front of", *(name for name in there
                              if owner(getattr(nccl, "nccl" + name)) != "libnccl.so.2"))
print("group", nccl.ncclGroupStart(), nccl.ncclGroupStart(), nccl.ncclGroupEnd(),
      nccl.ncclGroupEnd(), nccl.ncclGroupEnd())
buffer = (ctypes.c_float * 4)()
null = ctypes.c_void_p()
count = ctypes.c_size_t(4)
print("no communicator", nccl.ncclAllReduce(buffer, buffer, count, 7, 0, null, null),
      nccl.ncclBroadcast(buffer, buffer, count, 7, 0, null, null),
      nccl.ncclCommDestroy(null), nccl.ncclCommAbort(null),
      nccl.ncclCommGetAsyncError(null, ctypes.byref(version)))
world = ctypes.CDLL(None)  # the global scope, in which a linked program finds NCCL
ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
print("linked", world.ncclGroupStart(), world.ncclGroupEnd(), world.ncclGroupEnd(),
      world.ncclAllReduce(buffer, buffer, count, 7, 0, null, null))
comm = (ctypes.c_void_p * 2)()
print("no GPU", nccl.ncclCommInitAll(comm, 2, None) != 0)
identity = (ctypes.c_char * 128)()
made = nccl.ncclGetUniqueId(identity)
rest = bytes(identity.raw[48:])
print("id", made,
      "marked" if rest.startswith(b"symtuner") else "unmarked" if not any(rest) else "?")
nccl.ncclGroupStart()
print("in a group", nccl.ncclAllGather(buffer, buffer, count, 7, null, null))
print("end", nccl.ncclGroupEnd() != 0)
