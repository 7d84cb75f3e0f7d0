#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests groups across processes without GPUs: how ranks agree, say goodbye and die, on fakes of
CUDA and NCCL.

Two or four processes join JAX's coordinator, open a group through its key-value store and run one
of the CASES. The parent compares what they print and how they end.
"""

import ctypes
import io
import os
import select
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import lower_cases
from lower_cases import Device, set_env


def one_dies(client, me):
    """Kill this process if ``me`` is set. Otherwise wait until the process that has killed itself
    has ended, and raise an error."""
    if me:
        client.key_value_set("dies", str(os.getpid()))
        os.kill(os.getpid(), 9)
    select.select([os.pidfd_open(int(client.blocking_key_value_get("dies", 60000)))], [], [])
    raise RuntimeError("the others have noticed")


def left_over():
    """Return three numbers: this process's ranks in open groups, its handles, its communicators."""
    from symtuner import _library, groups

    ar = ctypes.CDLL(str(_library.load().ar_path))
    nccl = ctypes.CDLL("libnccl.so.2")
    return (
        len(groups()),
        ctypes.c_int.in_dll(ar, "fake_alive").value,
        ctypes.c_int.in_dll(nccl, "fake_comms").value,
    )


def holds(want):
    """Does left_over() become ``want``? It may take a moment, because another thread frees what is
    left."""
    for _ in range(20):
        if left_over() == want:
            return True
        time.sleep(0.05)
    print("holds", left_over(), "not", want, flush=True)
    return False


def open_slowly(devices, rank, seconds):
    """Open the group, which takes ``seconds`` on rank 1. Rank 1 gives up after 1 s. Return the
    error."""
    import symtuner
    from symtuner import _processes

    if rank == 1:
        set_env("FAKE_NCCL_SLOW", str(seconds))
        _processes.WAIT_S = 1
    try:
        symtuner.open_group(devices)
    except symtuner.SymtunerError as e:
        print("error:", e, flush=True)
        set_env("FAKE_NCCL_SLOW", None)
        _processes.WAIT_S = 120
        return str(e)
    return ""


def open_late(devices, rank):
    """Rank 1 gives up an opening. The opening succeeds later, after all ranks have gone on."""
    import symtuner

    problem = open_slowly(devices, rank, 3)
    assert "rank 1: opening the group" in problem, problem
    assert holds((0, 0, 0)), "before the opening has ended"
    time.sleep(4)
    assert holds((0, 0, 0)), "after the opening has ended"
    symtuner.close()
    symtuner.open_group(devices)
    assert holds((1, 1, 1)), "after the second opening"
    print("opened again", flush=True)


def come_late(devices, rank):
    """Rank 1 comes after rank 0 has timed out. Rank 1 must not go on alone."""
    import symtuner
    from symtuner import _processes

    _processes.WAIT_S = 1 if rank == 0 else 6
    time.sleep(3 * rank)
    began, right = time.monotonic(), False
    try:
        symtuner.open_group(devices)
    except symtuner.SymtunerError as e:
        print("error:", e, flush=True)
        right = "rank 1 did not answer within 1 s" in str(e)
    took = time.monotonic() - began
    time.sleep(0 if rank else 8)  # rank 0 has JAX's coordinator, so it ends last
    os._exit(3 if right and took < 4 and holds((0, 0, 0)) else 1)


def close_meanwhile(devices, rank):
    """Rank 0 closes its groups while another of its threads waits for rank 1 to open a group."""
    import symtuner
    from symtuner import _groups

    if rank == 1:
        time.sleep(4)
        return symtuner.open_group(devices)
    _groups.CLOSE_S = 1
    opener = threading.Thread(target=symtuner.open_group, args=(devices,))
    opener.start()
    time.sleep(0.5)
    began, sys.stderr = time.monotonic(), io.StringIO()
    symtuner.close()
    said, sys.stderr = sys.stderr.getvalue(), sys.__stderr__
    assert time.monotonic() - began < 2.5, "the close waited for the opening"
    assert "a group is still being opened" in said, said
    opener.join()
    assert holds((1, 1, 1)), "the opening went on"


def exit_meanwhile(devices, rank):
    """Rank 1 gives up an opening that takes longer than this test. Rank 1 ends while the opening
    still runs."""
    open_slowly(devices, rank, 100)


def interrupt(library, behind):
    """Raise KeyboardInterrupt right after the library's function ``behind`` has returned."""
    call = library.call

    def interrupted(name, *args):
        call(name, *args)
        if name == behind:
            del library.call
            raise KeyboardInterrupt

    library.call = interrupted


def open_interrupted(devices, rank):
    """Rank 0 is interrupted when its group is already in the table. The group stays."""
    import symtuner
    from symtuner import _library

    if rank == 0:
        interrupt(_library.load(), "admit")
    try:
        symtuner.open_group(devices)
        assert rank == 1, "not interrupted"
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    time.sleep(1)
    assert holds((1, 1, 1)), "after the interruption"


def close_interrupted(devices, rank):
    """Rank 0 is interrupted while its close waits for its calls, and closes again. A group that
    another thread opens meanwhile still says goodbye."""
    import symtuner
    from symtuner import _library, _processes

    symtuner.open_group(devices)
    if rank == 0:
        library = _library.load()
        settle = library.settle

        def interrupted(seconds):
            library.settle = settle
            raise KeyboardInterrupt

        library.settle = interrupted
        try:
            symtuner.close()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        assert holds((1, 1, 1)), "after the interruption"
        talk = _processes._talks[0]
        talk.say_goodbye = lambda: (type(talk).say_goodbye(talk), _processes._talks.append(None))
    symtuner.close()
    assert holds((0, 0, 0)), "after the close"
    assert _processes._talks == [None] * (rank == 0), _processes._talks
    _processes._talks.clear()


LATE = {
    "late opening": open_late,
    "late rank": come_late,
    "close meanwhile": close_meanwhile,
    "exit meanwhile": exit_meanwhile,
    "interrupted": open_interrupted,
    "close again": close_interrupted,
    "square": lower_cases.square,
    "local": lower_cases.local,
    "two each": lower_cases.two_each,
    "over boxes": lower_cases.over_boxes,
    "otherwise": lower_cases.otherwise,
    "short": lower_cases.short,
    "alone": lower_cases.alone,
    "unset": lower_cases.unset,
    "called": lower_cases.called,
    "by name": lower_cases.by_name,
    "two late": lower_cases.two_late,
    "initialized again": lower_cases.initialized_again,
    "silent": lower_cases.silent,
    "off": lower_cases.off,
    "retry meanwhile": lower_cases.retry_meanwhile,
}


def child(case, rank, ranks, port):
    import jax

    import symtuner
    from symtuner import _groups, _library, _processes, _xla

    jax.distributed.initialize(f"127.0.0.1:{port}", ranks, rank)
    devices = [Device(r) for r in range(ranks)]
    if case == "fail" and rank == 1:
        set_env("FAKE_NCCL_FAIL", "1")
    if case == "slow" and rank == 1:
        set_env("FAKE_NCCL_SLOW", "10")
        _processes.WAIT_S = 3
    if case == "hosts" and rank == 1:  # rank 1 is on another host than rank 0
        _processes._BOOT_ID = "/proc/sys/kernel/random/uuid"
    if case == "missing":
        if rank == 1:
            os.environ["SYMTUNER_LIB_DIR"] = os.path.dirname(__file__)
        return lower_cases.twice(devices)
    if case == "otherwise" and rank == 1:
        os.environ["SYMTUNER_JAX_COMMAND_BUFFERS"] = "0"
    if case == "second" and rank == 0:  # rank 0 begins its watch only after rank 1 has left
        slow = _library.load()
        slow.call = lambda name, *a: (time.sleep(name == "watch"), type(slow).call(slow, name, *a))
    if case in LATE:
        jax.process_index(), _library.load()  # the first time, these calls wait for all ranks
        return LATE[case](devices, rank)
    comm, offered = COMM.get(case, {}).get(rank, ("own", True))
    os.environ["SYMTUNER_JAX_COMM"] = comm
    _xla.why_not = lambda: "" if offered else "no such FFI extension"
    try:
        _groups.open_for(devices, _xla.use())
    except symtuner.SymtunerError as e:
        print("error:", e, flush=True)
        os._exit(3 if holds((0, 0, 0)) else 1)
    print(symtuner.groups()[0], flush=True)
    assert symtuner.describe() == (None if _xla.use() else "fake") and symtuner.describe(1) is None
    if case == "again":
        symtuner.close()
        time.sleep(1)
        symtuner.open_group(devices)
        print("opened again", flush=True)
    if case in ("kill", "leave", "hosts"):
        _library.load()._c.test_touch()  # make a call whose event stays pending
        if rank == 1:
            time.sleep(1)
            if case in ("kill", "hosts"):
                os.kill(os.getpid(), 9)
            set_env("FAKE_EVENT_PENDING", None)
            symtuner.close()
            time.sleep(20)
            os._exit(0)
        if case == "hosts":
            time.sleep(13)  # the exit watchdog would end the process after 11 s
            print("not ended", flush=True)
            os._exit(0)
        time.sleep(30)
    if case == "idle":  # only jax.distributed waits for the dead rank
        one_dies(_processes.coordinator(), rank == 1)
    if case == "second":  # one rank leaves in order, another is killed
        if rank == 1:
            symtuner.close()
            os._exit(0)
        talk = _processes._talks[0]
        talk.client.blocking_key_value_get(f"{talk.key}/left/0", 60000)
        one_dies(talk.client, rank == 2)
    if case == "late" and rank == 2:  # rank 2 is killed while the others wait in jax.distributed
        symtuner.close()
        time.sleep(3)
        os.kill(os.getpid(), 9)
    # rank 1 leaves at once, rank 3 waits in its kernel, and ranks 0 and 2 leave a second later
    if case == "cascade":
        if rank == 3:
            _library.load()._c.test_touch()
            time.sleep(30)
    time.sleep({"cascade": rank != 1, "apart": rank}.get(case, 0))


# case: for each rank, SYMTUNER_JAX_COMM and whether XLA offers its communicators there
COMM = {
    "xla": {0: ("auto", True), 1: ("xla", True)},
    "mixed": {0: ("xla", True), 1: ("own", True)},
    "probe": {0: ("auto", True), 1: ("auto", False)},
    "refused": {0: ("xla", True), 1: ("xla", False)},
    "misspelt": {0: ("own", True), 1: ("mine", True)},
}

LAX = "symtuner.all_reduce uses jax.lax instead:"
UNSET = (
    "process 0 does not run symtuner (SYMTUNER_JAX is not set there, or the package is not "
    "installed)"
)
LATE_BY = "it has lowered no program with symtuner within 3 s"
OFF = "process 1 does not run symtuner (SYMTUNER_MODE is off)"
NO_COMM = "rank 1: ncclCommInitRank: error 1; NCCL_DEBUG=WARN says more"
EVERYWHERE = (  # in these cases all ranks print what rank 0 prints
    *("square", "local", "two each", "over boxes", "short", "alone", "missing"),
    *("called", "silent", "initialized again"),
)

SAYS = {"unset", "by name", "off"}  # in these cases, ranks print a line on stderr

# case: exit status of each rank, and what rank 0 prints. None: any status. Rank 0 has the
# coordinator, so when rank 0 has ended, JAX itself ends the other rank.
CASES = {
    "open": ((0, 0), "rank=0 ranks=2 gpu=0 comm=own-nccl"),
    "xla": ((0, 0), "rank=0 ranks=2 gpu=0 comm=xla-nccl"),
    "mixed": (
        (3, None),
        "error: rank 0 would use XLA's communicator (SYMTUNER_JAX_COMM=xla), rank 1 one of its own "
        "(SYMTUNER_JAX_COMM=own); set SYMTUNER_JAX_COMM=own on all processes",
    ),
    "probe": (
        (3, None),
        "error: rank 0 would use XLA's communicator (SYMTUNER_JAX_COMM=auto), rank 1 one of its "
        "own (SYMTUNER_JAX_COMM=auto; no such FFI extension); set SYMTUNER_JAX_COMM=own on all",
    ),
    "refused": ((3, None), "error: rank 1: SYMTUNER_JAX_COMM=xla, but this jaxlib offers"),
    "misspelt": ((3, None), "error: rank 1: SYMTUNER_JAX_COMM='mine' is unknown; write one of own"),
    "missing": ((0, 0), f"{LAX} process 1 does not run symtuner (libsymtuner_ffi.so is not in "),
    "again": ((0, 0), "opened again"),
    "fail": ((3, None), "error: rank 1: ncclCommInitRank: error 1"),
    "slow": (
        (3, None),
        "error: rank 1: opening the group (ncclCommInitRank, symtuner_ar_create) did not end "
        "within 3 s",
    ),
    "late opening": ((0, 0), "opened again"),
    "late rank": ((3, 3), "error: rank 1 did not answer within 1 s"),
    "close meanwhile": ((0, 0), ""),
    "exit meanwhile": ((0, 0), "error: rank 1: opening the group"),
    "interrupted": ((0, 0), "interrupted"),
    "close again": ((0, 0), "interrupted"),
    "square": (
        (0, 0, 0, 0),
        f"lax {LAX} {NO_COMM}\n" * 2
        + "symtuner_all_reduce_recordable \n"
        + f"lax {LAX} {NO_COMM}\n"
        + "symtuner_all_reduce_recordable \n" * 2
        + "symtuner_all_reduce_recordable  3\n",
    ),
    "local": (
        (0, 0),
        f"lax {LAX} process 1: the fake cannot create or destroy\n"
        "symtuner_all_reduce_recordable  2\n",
    ),
    "two each": (
        (0, 0),
        f"lax {LAX} a group across processes needs one GPU in each process; start one process for "
        "each GPU, or one for all of them True\n",
    ),
    "over boxes": (
        (0, 0),
        f"lax {LAX} the group spans several boxes, where NCCL runs every call (docs/nodes.md)\n"
        "symtuner_all_reduce \n",
    ),
    "otherwise": (
        (0, 0),
        f"lax {LAX} process 0 would lower another program than process 1 (XLA may record: auto, ",
    ),
    "short": ((0, 0), "symtuner_all_reduce_recordable \n"),
    "alone": ((0, 0), f"lax {LAX} rank 1 did not answer within 1 s"),
    "unset": (
        (0, 0),  # lower() makes the package say each line again
        f"symtuner: {UNSET}, so XLA runs all collectives of programs with that process\n"
        f"lax {LAX} {UNSET}\n" * 3,
    ),
    "called": ((0, 0), "symtuner_all_reduce_recordable \n"),
    "by name": ((0, 0), "symtuner_all_reduce_recordable \n" * 2),
    "two late": (
        (0, 0, 0),
        "".join(f"process {p} does not run symtuner ({LATE_BY})\n" for p in (1, 2)),
    ),
    "initialized again": ((0, 0), "symtuner_all_reduce_recordable \n" * 2),
    "silent": (
        (0, 0),
        f"lax {LAX} process 1 does not run symtuner ({LATE_BY})\nsymtuner_all_reduce_recordable \n",
    ),
    "off": (
        (0, 0),
        f"symtuner: {OFF}, so XLA runs all collectives of programs with that process\n"
        f"lax {LAX} {OFF}\nlax {LAX} {OFF}\nopened\n",
    ),
    "retry meanwhile": ((0, 0), "['symtuner/runs/0/0', 'symtuner/runs/0/1']"),
    "kill": ((71, -9), "rank 1 is gone while rank 0 waits for it"),
    "hosts": ((0, -9), "not ended"),  # rank 1's pid means nothing on rank 0's host
    "apart": ((0, 0, 0, 0), "rank=0 ranks=4 gpu=0 comm=own-nccl"),
    "second": ((71, 0, -9, None), "symtuner: rank 2 is gone. This process began to end 1"),
    "late": ((71, None, -9, None), "symtuner: rank 2 is gone. This process "),
    "cascade": ((71, 71, None, 71), "symtuner: rank 3 is gone. This process "),
    "idle": ((71, -9), "symtuner: rank 1 is gone. This process began to end 1"),
    "leave": (
        (71, None),
        "rank 1 has closed the group or raised an exception while rank 0 waits for it",
    ),
}


def run(case):
    """Run the case and print what was wrong with it. Returns whether all was right."""
    codes, words = CASES[case]
    ranks = len(codes)
    port = lower_cases.free_port()
    pending = case in ("kill", "leave", "hosts", "cascade")
    env = dict(os.environ, JAX_PLATFORMS="cpu", **{"FAKE_EVENT_PENDING": "1"} if pending else {})
    start = time.time()
    children = [
        subprocess.Popen(
            [sys.executable, __file__, "--child", case, *map(str, (r, ranks, port))],
            env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for r in range(ranks)
    ]
    outs = []
    for c in children:
        try:
            outs.append(c.communicate(timeout=60)[0])
        except subprocess.TimeoutExpired:
            c.kill()
            outs.append(c.communicate()[0] + "\n(killed: too late)")
    got = tuple(c.returncode for c in children)
    heard = outs if case in EVERYWHERE else outs[1:] if case == "unset" else outs[:1]
    right = all(words in out for out in heard)
    right &= all(want in (None, code) for want, code in zip(codes, got))
    if not any(codes) and case not in SAYS:
        right &= not any(bad in "".join(outs) for bad in ("symtuner: ", "Traceback"))
    if not right:
        lines = [f"FAILED: {case}: exit {got}, {time.time() - start:.1f} s"]
        lines += [f"    {r}: {x[:200]}" for r, out in enumerate(outs)
                  for x in out.splitlines()[-12:]]
        print("\n".join(lines))
    return right


def main():
    with ThreadPoolExecutor(4) as pool:  # the threads mostly sleep
        right = list(pool.map(run, sys.argv[1:] or CASES))
    print(f"jax processes: {sum(right)} passed, {len(right) - sum(right)} failed")
    return not all(right)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        sys.exit(main())
