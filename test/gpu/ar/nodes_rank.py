# SPDX-License-Identifier: Apache-2.0
"""nodes_rank.py - one rank of test/gpu/ar/nodes.sh: random all-reduces over two boxes.

NCCL_HOSTID differs between the boxes, so NCCL and the library take one machine for several. Numbers
are small integers, so every type here adds them up exactly in any order.
"""
import ctypes
import os
import random
import sys

import torch
import torch.distributed as dist

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GPU = RANK % int(os.environ["NODES_GPUS"])
CALLS = int(sys.argv[1])
F32, BF16, I32 = 7, 9, 2
TYPES = {F32: torch.float32, BF16: torch.bfloat16, I32: torch.int32}
SUM, PROD, MAX, MIN, AVG = range(5)


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


class Plan(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("kernel", ctypes.c_char_p), ("ctas", ctypes.c_int),
                ("threads", ctypes.c_int), ("zero_copy", ctypes.c_int), ("pieces", ctypes.c_int),
                ("why", ctypes.c_char * 192), ("boxes", ctypes.c_int)]


torch.cuda.set_device(GPU)
dist.init_process_group("gloo")
nccl = ctypes.CDLL(os.environ["NCCL_LIB"], mode=ctypes.RTLD_GLOBAL)
ar = ctypes.CDLL(os.environ["SYMTUNER_AR_LIB"])
ar.symtuner_ar_error.restype = ctypes.c_char_p
uid = Id()
if RANK == 0:
    assert nccl.ncclGetUniqueId(ctypes.byref(uid)) == 0
box = [bytes(uid) if RANK == 0 else None]
dist.broadcast_object_list(box)
uid = Id.from_buffer_copy(box[0])
comm, handle = ctypes.c_void_p(), ctypes.c_void_p()
nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, Id, ctypes.c_int]
assert nccl.ncclCommInitRank(ctypes.byref(comm), RANKS, uid, RANK) == 0
assert ar.symtuner_ar_create(ctypes.byref(handle), ctypes.byref(comm), 1, None) == 0, \
    ar.symtuner_ar_error(None)
text = ctypes.create_string_buffer(1 << 16)
ar.symtuner_ar_describe(handle, text, ctypes.c_size_t(len(text)))
if RANK == 0:
    print(text.value.decode())


def call(send, recv, kind, op):
    status = ar.symtuner_ar_all_reduce(
        ctypes.c_void_p(send.data_ptr()), ctypes.c_void_p(recv.data_ptr()),
        ctypes.c_size_t(send.numel()), kind, op, handle,
        ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
    assert status == 0, ar.symtuner_ar_error(handle)


def values(seed, rank, count, kind, op):
    g = torch.Generator().manual_seed(seed * 64 + rank)
    low, high = (1, 3) if op == PROD else (-8, 9)
    return torch.randint(low, high, (count,), generator=g).to(TYPES[kind])


def expected(seed, count, kind, op):
    all_of = torch.stack([values(seed, r, count, kind, op).to(torch.float64) for r in range(RANKS)])
    out = (all_of.prod(0) if op == PROD else all_of.amax(0) if op == MAX
           else all_of.amin(0) if op == MIN else all_of.sum(0))
    return (out / RANKS if op == AVG else out).to(TYPES[kind])


def same_on_all(seed, recv):
    mine = recv.cpu().view(torch.uint8)
    first = mine.clone()
    dist.broadcast(first, 0)
    assert torch.equal(mine, first), f"call {seed}: rank {RANK} has other bits than rank 0"


random.seed(int(os.environ.get("AR_SEED", "1")))
by_box = 0
for seed in range(CALLS):
    kind, op = random.choice(list(TYPES)), random.randrange(5)
    count = random.randint(1, 1 << random.randint(4, 22))
    in_place, captured = random.random() < 0.5, random.random() < 0.2
    op = SUM if op == AVG and (kind == I32 or RANKS & (RANKS - 1)) else op
    plan = Plan(size=ctypes.sizeof(Plan))
    send = values(seed, RANK, count, kind, op).cuda()
    recv = send if in_place else torch.full_like(send, 77)
    assert ar.symtuner_ar_query(ctypes.c_void_p(send.data_ptr()), ctypes.c_void_p(recv.data_ptr()),
                                ctypes.c_size_t(count), kind, op, handle, ctypes.byref(plan)) == 0
    by_box += b"boxes of" in plan.why and plan.kernel != b"nccl"
    if captured:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            call(send, recv, kind, op)
        graph.replay()
        torch.cuda.synchronize()
        del graph
    else:
        call(send, recv, kind, op)
    torch.cuda.synchronize()
    assert torch.equal(recv.cpu(), expected(seed, count, kind, op)), \
        f"call {seed}: rank {RANK}, type {kind}, op {op}, {count}: wrong; {plan.why.decode()}"
    same_on_all(seed, recv)
assert ar.symtuner_ar_destroy(ctypes.byref(handle), 1) == 0, ar.symtuner_ar_error(None)
nccl.ncclCommDestroy(comm)
assert by_box > CALLS // 4 or "SYMTUNER_RULE" not in os.environ, \
    f"only {by_box} of {CALLS} calls ran box by box: they do not count"
if RANK == 0:
    print(f"nodes: {CALLS} calls right, {by_box} of them box by box")
