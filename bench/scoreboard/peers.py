# SPDX-License-Identifier: Apache-2.0
"""The projects that are measured. Each class makes its state once, on all ranks, and then plans
calls.

plan(how, coll, kind, size) returns a Call, or a text that says why this project cannot run the
call. All ranks get the same answer. The modules of SGLang and FlashInfer are those that prepare.py
compiled. We do not run these projects' Python code. The classes here do what that code does around
the modules, and use torch's symmetric memory.
"""
import ctypes
import importlib.util
import json
import lzma
import os
import pathlib
import sys
import tempfile

RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "2"))


class Call:
    """``send`` is the input of the call: the caller writes its data there before ``run()``, which
    starts the call on the current stream and returns the result. ``out`` is where the result will
    be, if that is known. ``about`` says what runs. If ``in_place``, the result overwrites ``send``.
    After a capture the caller must call ``captured()``."""

    def __init__(self, send, run, out=None, about=None, in_place=False, captured=None):
        self.send, self.run, self.out, self.about = send, run, out, about
        self.in_place, self.captured = in_place, captured


class Shared:
    """Memory that all ranks reach. ``mine`` is this rank's memory as a tensor, ``pointers`` has the
    address of every rank's memory."""

    def __init__(self, bench, size):
        import torch.distributed._symmetric_memory as symm_mem
        torch = bench.torch
        self.mine = symm_mem.empty(size, dtype=torch.uint8, device="cuda")
        self.handle = symm_mem.rendezvous(self.mine, bench.dist.group.WORLD.group_name)
        self.pointers = [int(p) for p in self.handle.buffer_ptrs]
        self.mine.zero_()
        bench.barrier()

    def of(self, rank, at, shape, kind):
        return self.handle.get_buffer(rank, shape, kind, at // kind.itemsize)


class Nccl:
    """NCCL, or our library on NCCL's communicators, as bench/beside.py calls them."""

    def __init__(self, bench, most, library):
        import beside
        packed = os.environ.get("SCOREBOARD_NCCL")
        if packed:
            os.environ["NCCL_LIBRARY"] = unpacked(packed)
        beside.MOST = max(most, 1 << 20)
        self.bench, self.beside, self.nccl = bench, beside, beside.load()
        self.library = ctypes.CDLL(library) if library else None
        beside.prototypes(self.nccl, self.library)
        self.buffers, self.who = beside.allocate(self.nccl), {}
        version = ctypes.c_int()
        self.nccl.ncclGetVersion(ctypes.byref(version))
        self.about = f"NCCL {version.value}" + (f", {library}" if library else "")

    def plan(self, how, coll, kind, size):
        beside, torch, kinds = self.beside, self.bench.torch, {"bf16": 9, "f32": 7}
        if how not in self.who:
            self.who[how] = beside.contender(self.nccl, self.library, self.buffers, how)
        send, out = (torch.as_tensor(beside.Memory(b, 2 * -(-size // 2)), device="cuda")
                     .view(self.bench.types[kind]) for b in self.buffers)
        give, take = self.bench.lengths(coll, kind, size)
        start = beside.collective(self.who[how], coll, self.buffers, size, kinds[kind],
                                  self.bench.types[kind].itemsize)

        def run():
            start(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
            return out[:take]

        return Call(send[:give], run, out[:take])


class Torch:
    def __init__(self, bench, most):
        self.bench, self.memory = bench, Shared(bench, max(most, 1 << 20))
        self.group = bench.dist.group.WORLD.group_name
        self.about = f"torch {bench.torch.__version__}"

    def plan(self, how, coll, kind, size):
        ops, give = self.bench.torch.ops.symm_mem, self.bench.lengths(coll, kind, size)[0]
        send = self.memory.mine[:give * self.bench.types[kind].itemsize].view(
            self.bench.types[kind])
        if how == "one_shot":
            return Call(send, lambda: ops.one_shot_all_reduce(send, "sum", self.group))
        if how == "two_shot":
            return Call(send, lambda: ops.two_shot_all_reduce_(send, "sum", self.group),
                        in_place=True)
        name = {"allgather": "_low_contention_all_gather",
                "reducescatter": "_low_contention_reduce_scatter"}[coll]
        if not hasattr(ops, name):
            return f"torch has no symm_mem.{name}"
        more = ("sum", self.group) if coll == "reducescatter" else (self.group,)
        return Call(send, lambda: getattr(ops, name)(send, *more))


class Sglang:
    """SGLang's CustomAllReduceV2. Its classes PushPlane and PullPlane get symmetric memory. Its
    pull kernels find the ranks' buffers in a table of pointers, as they do in SGLang's CUDA
    graphs."""

    def __init__(self, bench, most, folder):
        self.bench, self.folder, torch = bench, folder, bench.torch
        self.ffi = load_ffi(folder)
        self.ffi.load_module(str(folder / "lib/sglang_communicator.so")).register_communicator()
        spec = importlib.util.spec_from_file_location("sglang_config", folder / "sglang_config.py")
        config = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(config)
        self.rule = config.get_all_reduce_config(RANKS)
        self.pull_most = min(most, max(self.rule.max_pull_bytes, 1 << 20))
        self.slot = -(-max(self.rule.max_push_bytes(RANKS),
                           config.two_shot_push_slot_bytes(32 << 20, RANKS), 16 << 20)
                      // 1024) * 1024
        self.two_shot_slot = config.two_shot_push_slot_bytes
        blocks, slots = self.rule.num_pull_blocks, 2 * RANKS
        pull_at, signs_at = slots * self.slot, slots * self.slot + self.pull_most
        memory = self.memory = Shared(bench, signs_at + 128 * blocks)
        self.input = Shared(bench, most)
        u8 = torch.uint8
        self.counter = torch.zeros((self.rule.num_push_blocks,), dtype=torch.uint32, device="cuda")
        every = range(RANKS)
        push = self.object("PushPlane", RANK, RANKS,
                           [memory.of(r, 0, [slots, self.slot], u8) for r in every],
                           self.counter.view(-1, 1).view(u8), 0)
        pull = self.object("PullPlane", RANK, RANKS,
                           [memory.of(r, pull_at, [self.pull_most], u8) for r in every],
                           [memory.of(r, signs_at, [blocks, 128], u8) for r in every], 0, 0)
        self.communicator = self.object("Communicator", push, pull)
        self.row = torch.tensor([self.input.pointers], dtype=torch.uint64, device="cuda")
        self.modules = {}
        self.about = f"SGLang {json.loads((folder / 'about.json').read_text())['sglang']}, tvm-ffi"
        bench.barrier()

    def object(self, name, *arguments):
        """Make an object of the SGLang class ``name``, which SGLang's module has registered with
        tvm-ffi."""
        made = type(name, (self.ffi.Object,), {
            "__init__": lambda this, *given: this.__ffi_init__(*given)})
        return self.ffi.register_object(f"sgl.distributed.{name}")(made)(*arguments)

    def algorithm(self, size):
        """Return the algorithm that SGLang chooses in a CUDA graph without multicast, or None if
        SGLang calls NCCL."""
        rule = self.rule.graph
        order = (("1shot_push", rule.one_shot_push_threshold),
                 ("2shot_push", rule.two_shot_push_threshold),
                 ("1shot_pull", rule.one_shot_pull_threshold),
                 ("2shot_pull", rule.two_shot_pull_threshold))
        return next((name for name, most in order if size <= most), None)

    def plan(self, how, coll, kind, size):
        torch, name = self.bench.torch, f"sglang_{kind}_{RANKS}"
        word = self.algorithm(size) if how == "default" else how
        if word is None:
            return "SGLang leaves this size to NCCL"
        slot = self.two_shot_slot(size, RANKS) if word == "2shot_push" else size
        if word.endswith("push") and slot > self.slot:
            return f"a slot of its push plane has {self.slot} bytes here"
        if size % 16:
            return "it takes multiples of 16 bytes"
        if name not in self.modules:
            file = self.folder / f"lib/{name}.so"
            if not file.exists():
                return f"{file.name} was not compiled"
            self.modules[name] = self.ffi.load_module(str(file))
        send = self.input.mine[:size].view(self.bench.types[kind])
        row = self.row if word.endswith("pull") else None
        reduce = self.modules[name].all_reduce

        def run():
            out = reduce(self.communicator, send, word, row, False)
            return out if isinstance(out, torch.Tensor) else torch.from_dlpack(out)

        return Call(send, run, about=word, in_place=word == "2shot_pull")


class Flashinfer:
    """FlashInfer's copies of vLLM's and TensorRT-LLM's kernels, and its own kernels for PCIe."""

    PATTERN_ALL_REDUCE, FLAGS, GREATEST_LAMPORT = 0, 256, 0x7fffffff & ~((1 << 21) - 1)

    def __init__(self, bench, most, folder):
        self.bench, self.most, self.folder = bench, most, folder
        self.ffi, self.modules, self.state = load_ffi(folder), {}, {}
        self.send = bench.torch.empty(most, dtype=bench.torch.uint8, device="cuda")
        self.recv = bench.torch.empty(most, dtype=bench.torch.uint8, device="cuda")
        version = json.loads((folder / "about.json").read_text())["flashinfer"]
        self.about = f"FlashInfer {version}, tvm-ffi"

    def module(self, name):
        if name not in self.modules:
            self.modules[name] = self.ffi.load_module(
                str(self.folder / f"lib/flashinfer_{name}.so"))
        return self.modules[name]

    def once(self, key, make):
        if key not in self.state:
            self.state[key] = make()
            self.bench.barrier()
        return self.state[key]

    def plan(self, how, coll, kind, size):
        give, take = self.bench.lengths(coll, kind, size)
        width = self.bench.types[kind].itemsize
        send = self.send[:give * width].view(self.bench.types[kind])
        recv = self.recv[:take * width].view(self.bench.types[kind])
        if min(give, take) * width % 16:
            return "it takes multiples of 16 bytes"
        if how == "vllm":
            return self.vllm(send, recv, size)
        word, *rest = how.split(":")
        if word == "pcie":
            return self.pcie(coll, send, recv, int(rest[0]), rest[1], width)
        return self.trtllm(word == "trt_one", int(rest[0]), send, recv, kind)

    def vllm(self, send, recv, size):
        module = self.module("vllm")
        stage_most = 16 << 20

        def make():
            signal = Shared(self.bench, module.meta_size() + stage_most)
            stage = Shared(self.bench, stage_most)
            table = self.bench.torch.empty(8 << 20, dtype=self.bench.torch.uint8, device="cuda")
            handle = module.init_custom_ar(signal.pointers, table, RANK, True)
            module.register_buffer(handle, stage.pointers)
            return handle, stage, signal, table

        if RANKS not in (2, 4, 6, 8):
            return "it takes 2, 4, 6 or 8 ranks"
        if size > stage_most:    # too long for the staging buffer of calls outside of a graph
            return "vLLM leaves this size to NCCL"
        handle, stage, *_ = self.once("vllm", make)

        def run():
            capturing = self.bench.torch.cuda.is_current_stream_capturing()
            module.all_reduce(handle, send, recv, 0 if capturing else stage.pointers[RANK],
                              0 if capturing else stage_most, 36)
            return recv

        def captured():    # the ranks exchange the addresses of the graph's inputs, as vLLM does
            mine, every = module.get_graph_buffer_ipc_meta(handle), [None] * RANKS
            mine = [[int(x) for x in part] for part in mine]
            self.bench.dist.all_gather_object(every, mine, group=self.bench.cpu)
            module.register_graph_buffers(handle, [e[0] for e in every], [e[1] for e in every])

        return Call(send, run, recv, captured=captured)

    def trtllm(self, one_shot, hidden, send, recv, kind):
        torch, module, n = self.bench.torch, self.module("trtllm"), send.numel()
        width, hidden = send.itemsize, min(hidden, n)
        tokens = n // hidden
        if not one_shot and tokens < RANKS:
            return "two-shot wants a token for each rank"
        room = (4 << 20) * RANKS

        def make():
            whole = Shared(self.bench, 2 * RANKS * self.most)
            flags = Shared(self.bench, RANKS * self.FLAGS * 4)
            lamport = Shared(self.bench, 3 * room)
            # -0.0 marks elements that are not written yet
            lamport.mine.view(torch.int16 if width == 2 else torch.int32).fill_(
                -0x8000 if width == 2 else -0x80000000)
            state = torch.tensor([0, 0, 0, room, 0], dtype=torch.int32, device="cuda")
            pointers = whole.pointers + flags.pointers + lamport.pointers + [state.data_ptr()]
            return (torch.tensor(pointers, dtype=torch.int64, device="cuda"), whole, flags, lamport,
                    state)

        workspace = self.once(f"trtllm {width}", make)[0]
        given, out = send.view(tokens, hidden), recv.view(tokens, hidden)

        def run():
            module.trtllm_allreduce_fusion(given, RANKS, RANK, tokens, hidden, workspace, True,
                                           one_shot, False, True, self.PATTERN_ALL_REDUCE, out,
                                           *[None] * 11)
            return recv

        return Call(send, run, recv)

    def pcie(self, coll, send, recv, blocks, variant, width):
        halves = coll != "allreduce"
        module = self.module("pcie_halves" if halves else "pcie")
        name = {"allreduce": "pcie_ipc", "allgather": "pcie_ipc_all_gather",
                "reducescatter": "pcie_ipc_reduce_scatter"}[coll]
        shard = min(send.numel(), recv.numel())
        if RANKS not in (2, 4, 8):
            return "it takes 2, 4 or 8 ranks"
        extra = (False,) if coll == "allgather" else ()    # False: do not use the copy engine

        # The layout of a workspace depends on the size of its largest call, so each size has its
        # own workspace.
        def make():
            size = getattr(module, name + "_workspace_size")(
                RANKS, shard, width, 128 if not halves else 64, *extra)
            memory = Shared(self.bench, size)
            handle = getattr(module, name + "_init")(memory.pointers, RANK, shard, width,
                                                     128 if not halves else 64, *extra)
            return handle, memory

        for key in [key for key in self.state
                    if key[:2] == ("pcie", coll) and key[2:] != (shard, width)]:
            getattr(module, name + "_dispose")(self.state.pop(key)[0])
        handle = self.once(("pcie", coll, shard, width), make)[0]
        if coll == "allreduce":
            start = lambda: module.pcie_ipc_all_reduce(handle, send, recv, blocks, 512,
                                                       int(variant), False)
        else:
            which = {("allgather", 4): 0, ("allgather", 2): 1,
                     ("allgather", 8): 1}.get((coll, RANKS), 0)
            start = lambda: getattr(module, name)(handle, send, recv, blocks, 512, which)
        return Call(send, lambda: (start(), recv)[1], recv)


def unpacked(packed):
    """Unpack a library once for all processes of this machine. Returns the path of the unpacked
    file."""
    name = f"scoreboard-{os.getuid()}-{pathlib.Path(packed).stem}"
    out = pathlib.Path(tempfile.gettempdir()) / name
    if not out.exists():
        part = out.with_suffix(f".{os.getpid()}")
        with lzma.open(packed) as data:
            part.write_bytes(data.read())
        part.rename(out)
    return str(out)


def load_ffi(folder):
    sys.path.insert(0, str(folder))
    import tvm_ffi
    return tvm_ffi


def make(crew, bench, most):
    # the folder of beside.py
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
    if crew == "ours":
        return Nccl(bench, most, os.environ["SCOREBOARD_LIBRARY"])
    if crew.startswith("nccl-"):
        return Nccl(bench, most, None)
    if crew == "torch":
        return Torch(bench, most)
    folder = pathlib.Path(os.environ["SCOREBOARD_PEERS"])
    return (Sglang if crew == "sglang" else Flashinfer)(bench, most, folder)
