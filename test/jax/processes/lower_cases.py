# SPDX-License-Identifier: Apache-2.0
"""Cases of test_processes.py in which each process lowers a call: to our kernel or to jax.lax."""

import ctypes
import socket
import threading
import time
import warnings
from types import SimpleNamespace


def set_env(name, value):
    """Set a variable for the fakes, which read the environment of the C library."""
    if value is None:
        ctypes.CDLL(None).unsetenv(name.encode())
    else:
        ctypes.CDLL(None).setenv(name.encode(), value.encode(), 1)


class Device:  # has the members of a JAX device that _groups reads
    platform = "gpu"

    def __init__(self, process, id=None):
        self.id, self.process_index = id or 10 + process, process

    @property
    def local_hardware_id(self):  # JAX knows this only for devices of this process
        import jax

        return 0 if self.process_index == jax.process_index() else None


def lower(devices, shape=None, names=("i",), axes=("i",), by_name=True):
    """Return what a call over these axes of these devices is lowered to, and its warning. Without
    ``by_name`` the call is a psum that install() replaces."""
    import jax
    import numpy as np

    from symtuner import _all_reduce, _groups, _say

    mesh = SimpleNamespace(devices=np.array(devices).reshape(shape or -1), axis_names=names)
    module = SimpleNamespace(
        axis_context=SimpleNamespace(mesh=mesh), lowering_parameters=None, platforms=("cuda",)
    )
    aval = SimpleNamespace(size=4, dtype=np.dtype("float32"))
    ctx = SimpleNamespace(module_context=module, avals_in=[aval])
    _all_reduce._lower_lax = lambda *_, **__: "lax"
    _all_reduce.open_rows = lambda rows, xla, _: _groups.open_rows(rows, xla, by_name)
    jax.ffi.ffi_lowering = lambda target: lambda *_, **__: target
    _say._said.clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call = _all_reduce._lower_cuda(ctx, None, op="sum", axes=axes, groups=None)
    assert len(said) == (call == "lax"), (call, said)
    return call, str(said[0].message) if said else ""


def twice(devices):
    """Lower two calls. On all ranks both become calls of jax.lax, and the second call's lowering
    does not wait."""
    (call, why), (second, same) = lower(devices), lower(devices)
    assert call == second == "lax" and why == same, (call, second, why, same)
    print(why, flush=True)


SQUARE = dict(shape=(2, 2), names=("dp", "tp"))


def square(devices, rank):
    """A call uses all of its groups or none. Rank 1 cannot open its group, so the ranks of the
    other group, 2 and 3, lower jax.lax, too."""
    import symtuner

    if rank == 1:
        set_env("FAKE_NCCL_FAIL", "1")
    print(*lower(devices, axes=("tp",), **SQUARE), flush=True)
    print(*lower(devices, axes=("tp",), **SQUARE), flush=True)
    set_env("FAKE_NCCL_FAIL", None)
    print(*lower(devices, axes=("dp",), **SQUARE), flush=True)
    print(*lower(devices, axes=("tp",), **SQUARE), flush=True)
    symtuner.retry()
    print(*lower(devices, axes=("tp",), **SQUARE), flush=True)
    print(*lower(devices, axes=("tp", "dp"), **SQUARE), flush=True)
    print(*lower(devices, axes=("dp", "tp"), **SQUARE), len(symtuner.groups()), flush=True)


def local(devices, rank):
    """Each group lies within one process. At first rank 1 cannot open its group, so both ranks
    lower jax.lax."""
    import symtuner

    both = [Device(number // 2, 20 + number) for number in range(4)]
    if rank == 1:
        set_env("FAKE_AR_FAIL", "create")
    print(*lower(both, axes=("tp",), **SQUARE), flush=True)
    set_env("FAKE_AR_FAIL", None)
    symtuner.close()
    symtuner.retry()
    print(*lower(both, axes=("tp",), **SQUARE), len(symtuner.groups()), flush=True)


def two_each(devices, rank):
    """A group has two GPUs of each process, so it cannot be opened. A process does not wait for the
    other one's answer: the other may have the program in its compile cache, and lower nothing."""
    four = [Device(number // 2, 20 + number) for number in range(4)]
    time.sleep(0 if rank else 3)
    began = time.monotonic()
    print(*lower(four), time.monotonic() - began < 2.5, flush=True)


def over_boxes(devices, rank):
    """The ranks are on two boxes. A call opens their group only if the user asks for all-reduces
    box by box."""
    import symtuner

    for device in devices:
        device.slice_index = device.process_index
    print(*lower(devices), flush=True)
    set_env("FAKE_AR_BOXES", "1")
    symtuner.retry()
    print(*lower(devices), flush=True)


def otherwise(devices, rank):
    """Only rank 1 has the setting SYMTUNER_JAX_COMMAND_BUFFERS=0."""
    print(*lower(devices), flush=True)


def short(devices, rank):
    """On rank 1 memory is short at first. All ranks try again until rank 1 has enough."""
    from symtuner import _groups

    _groups.PAUSES_S = (0, 0)
    if rank == 1:
        set_env("FAKE_AR_SHORT", "2")
    print(*lower(devices), flush=True)


def alone(devices, rank):
    """Rank 1 does not lower the program in time, so all lower jax.lax. Rank 1 does so, too, when it
    lowers the program later."""
    from symtuner import _presence, _processes

    _presence.say()
    _processes.coordinator().wait_at_barrier("said", 60000)
    _processes.WAIT_S = 1
    time.sleep(4 * rank)
    print(*lower(devices, axes=("tp",), shape=(2, 1), names=("tp", "dp")), flush=True)
    time.sleep(0 if rank else 8)  # rank 0 has JAX's coordinator, so it ends last


def start(devices, variable):
    """Do what JAX does when its backends start, with SYMTUNER_JAX set or not. On GPUs a start ends
    after all processes have begun it."""
    import os

    from symtuner import _entry, _processes

    os.environ["SYMTUNER_JAX"] = variable
    _entry.initialize()
    _processes.coordinator().wait_at_barrier("started", 60000)


def unset(devices, rank):
    """SYMTUNER_JAX is not set in process 0. The other processes know that at once."""
    import symtuner

    start(devices, "1" if rank else "0")
    if rank:
        print(*lower(devices, by_name=False), flush=True)
        more = [*devices, Device(0, 20), Device(1, 21)]
        print(*lower(more, axes=("tp",), by_name=False, **SQUARE), flush=True)
        symtuner.retry()
        print(*lower(devices, by_name=False), flush=True)
    else:
        time.sleep(10)  # rank 0 has JAX's coordinator, so it ends last


def called(devices, rank):
    """SYMTUNER_JAX is set only in process 1, but the program calls install(): in process 1 before
    JAX's backends start, and in process 0 after that."""
    import symtuner

    if rank:
        symtuner.install()
    start(devices, "1" if rank else "0")
    if not rank:
        time.sleep(2)
        symtuner.install()
    print(*lower(devices, by_name=False), flush=True)


def by_name(devices, rank):
    """SYMTUNER_JAX is set only in process 1, but the program calls symtuner.all_reduce(). These
    calls run our kernels, whichever process is first. Process 1's psums do not, because process
    0's psums are XLA's, even if the group is open."""
    start(devices, "1" if rank else "0")
    more = [Device(0, 20), Device(1, 21)]
    if rank:
        call, why = lower(devices, by_name=False)
        assert call == "lax" and "SYMTUNER_JAX is not set there" in why, (call, why)
    time.sleep(0 if rank else 2)
    print(*lower(devices), flush=True)
    time.sleep(2 if rank else 0)
    print(*lower(more), flush=True)
    if rank:
        call, why = lower(more, by_name=False)
        assert call == "lax" and "SYMTUNER_JAX is not set there" in why, (call, why)


def two_late(devices, rank):
    """Two processes are late. Rank 0 waits for both at the same time, not one after the other."""
    from symtuner import _presence, _processes

    meet = _processes.coordinator().wait_at_barrier
    if rank == 0:
        _processes.WAIT_S = 1
        began = time.monotonic()
        print(_presence.missing([0, 1, 2]), flush=True)
        print(_presence.missing([0, 2]), flush=True)
        took = time.monotonic() - began
        assert 2.5 < took < 5, took
    meet("asked", 60000)


def initialized_again(devices, rank):
    """JAX is initialized again. Its new coordinator does not know what the old one knew."""
    import os

    import symtuner
    from jax._src.distributed import global_state
    from symtuner import _presence, _processes

    start(devices, "1")
    print(*lower(devices, by_name=False), flush=True)
    symtuner.close()
    if rank:
        _processes._agreed.clear()  # as in a process that was started again
    address = f"127.0.0.1:{free_port()}" if rank == 0 else ""
    client = _processes.coordinator()
    if rank == 0:
        client.key_value_set("address", address)
    address = client.blocking_key_value_get("address", 60000)
    global_state.shutdown()
    os.environ.pop("SYMTUNER_JAX")
    global_state.initialize(address, 2, rank)
    _presence._renew()
    _processes.coordinator().wait_at_barrier("started again", 60000)
    began = time.monotonic()
    print(*lower(devices, by_name=False), flush=True)
    assert time.monotonic() - began < 20
    assert _processes.coordinator().key_value_dir_get("symtuner/asked/")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def silent(devices, rank):
    """Process 1 does not say in time that it runs symtuner. When it comes later, it learns that it
    counts as a process without symtuner until both processes call retry() or close()."""
    import symtuner
    from symtuner import _presence, _processes

    meet = _processes.coordinator().wait_at_barrier
    _processes.WAIT_S = 1
    if rank:
        meet("gave up", 60000)
    print(*lower(devices), flush=True)
    if not rank:
        meet("gave up", 60000)
    _processes.WAIT_S = 30
    symtuner.close()
    print(*lower(devices), flush=True)
    _presence.again()  # as if only rank 0 had closed its groups, and rank 1 had none
    assert rank or _presence.missing([0, 1]) == ""
    meet("asked", 30000)


def retry_meanwhile(devices, rank):
    """While a thread of rank 0 waits for rank 1, rank 0 begins another round. What the thread then
    says about rank 1 still belongs to the first round."""
    from symtuner import _presence, _processes

    client = _processes.coordinator()
    if rank == 0:
        _processes.WAIT_S = 1
        asks = threading.Thread(target=_presence.missing, args=([0, 1],))
        asks.start()
        time.sleep(0.5)
        _presence.again()
        asks.join()
        print(sorted(key for key, _ in client.key_value_dir_get("symtuner/runs/")), flush=True)
    client.wait_at_barrier("asked", 60000)


def off(devices, rank):
    """SYMTUNER_MODE is off in process 1. Both processes know that at once, also after retry(), and
    both lower jax.lax. A program from jax.export may have our custom calls, so open_group() still
    opens a group."""
    import os

    import symtuner
    from symtuner import _all_reduce, _presence

    if rank:
        os.environ["SYMTUNER_MODE"] = "off"
    began = time.monotonic()
    start(devices, "1")
    if not rank:
        assert _presence.missing([0, 1], _presence.INSTALLED)
    for _ in range(2):
        if rank:
            _all_reduce._lower_lax = lambda *_, **__: "lax"
            ctx = SimpleNamespace(module_context=None)
            print(_all_reduce._lower_cuda(ctx, None, op="sum", axes=(), groups=None), flush=True)
        else:
            print(*lower(devices), flush=True)
        symtuner.retry()
    symtuner.open_group(devices)
    assert time.monotonic() - began < 20 and len(symtuner.groups()) == 1, "waited"
    print("opened", flush=True)
