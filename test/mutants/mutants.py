#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutants.py - breaks the code in one place at a time, and checks whether `make test` notices.

usage: mutants.py [--seed N] [--count N] [--skip N] [--jobs N] [--files GLOB...] [--only
FILE:LINE...] [--longest SECONDS] [--again] [--work FOLDER] [--list]

A mutant is the tree with one small change: to a comparison, to && or ||, to a constant or to a
returned value, or with a statement left out. Lines are drawn at random from all lines of code; the
same tree, files, seed and compiler give the same mutants. A mutant that does not compile or gives
the same object file does not count, and the next one takes its place. Each mutant runs the suites
of `make test` that contain code of its file, the closest first, until one fails or takes too long.
For files of jax/ these are the tests of that folder, which need jax. A mutant that passes all has
survived: a test is missing, the code is not needed, or the change has no effect.

Works in copies of the tree, in build-mutants/ unless --work names another folder. Prints a line per
mutant, then totals. Exit status: 0 if all were killed, 1 if some survived, 2 if the tree fails.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

FILES = ["base/*.[ch]", "nccl/*.[ch]", "nccl/model/*.c", "rules/*.[ch]", "plugin/*.[ch]",
         "plugin/*/*.[ch]", "kernels/*/*.c", "dropin/*.c", "dropin/*/*.c", "cli/*.c", "cli/*/*.c",
         "jax/*.c", "jax/hlo/*.c"]

# ---- where a mutant can be -----------------------------------------------------------------------

Mutant = collections.namedtuple("Mutant", "file line kind start end new old")

BLANK = re.compile(
    r"//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|\b_Static_assert\s*\(.*?\)\s*;|\b__attribute__\s*\(\(.*?\)\)|\bassert\s*\([^;]*;",
    re.S | re.M)
COMPARISON = {"<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="],
              "==": ["!="], "!=": ["=="]}
TOKEN = re.compile(r"->|<<=?|>>=?|[<>=!]=|&&|\|\||[<>!]|\b(?:true|false)\b"
                   r"|\b(?:0[xX][0-9a-fA-F]+|[1-9][0-9]*|0)[uUlL]*\b(?!\.|[\"'])")
# a declaration, such as "struct a b[3]" or "const char *const p": two names, or name, stars, name
DECLARES = re.compile(r"\s*(?:static|const|extern|typedef|struct|enum|union|unsigned|"
                      r"[A-Za-z_]\w*\s+\**\s*(?:const\s+)?[A-Za-z_]\w*\s*[;,=\[(:])")
NO_EXPRESSION = re.compile(r"\s*(?:return|if|for|while|do|else|switch|case|default|goto)\b")


def described(m):
    return "%s:%d\t%s\t%s -> %s" % (m.file, m.line, m.kind, m.old, m.new.strip())


def blanked(text):
    """Return the text with comments, strings, directives and asserts replaced by spaces of the same
    length."""
    return BLANK.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def statements(code):
    """Yield (start, end) of each statement between braces and semicolons, with its semicolon."""
    start, paren = 0, 0
    for at, c in enumerate(code):
        paren += (c == "(") - (c == ")")
        if c in "{}" or (c == ";" and paren <= 0):
            yield start, at + (c == ";")
            start, paren = at + 1, 0


BEFORE = re.compile(r"\s*(?:(?:if|for|while|switch)\s*(?=\()|else\b|do\b|case\b[^:?]*:|\w+\s*:)")


def simple_statement(code, start, end):
    """Return where the statement itself starts, after labels, if (...), for (...) and else."""
    while True:
        found = BEFORE.match(code, start, end)
        if not found:
            return start + len(code[start:end]) - len(code[start:end].lstrip())
        start = found.end()
        if start < end and code[start] == "(":
            depth = 0
            while start < end:
                depth += (code[start] == "(") - (code[start] == ")")
                start += 1
                if depth == 0:
                    break


def changes(file, text):
    """Yield every mutant of a file."""
    code = blanked(text)

    def mutant(kind, start, end, new):
        new += "\n" * text.count("\n", start, end)  # so that the lines below keep their numbers
        return Mutant(file, text.count("\n", 0, start) + 1, kind, start, end, new,
                      " ".join(text[start:end].split()))

    for start, end in statements(code):
        whole = code[start:end]
        if DECLARES.match(whole) and "=" not in whole:
            continue  # this is a declaration without a value
        for m in TOKEN.finditer(code, start, end):
            token = m.group()
            if token in COMPARISON:
                for new in COMPARISON[token]:
                    yield mutant("comparison", *m.span(), new)
            elif token in ("&&", "||"):
                yield mutant("logic", *m.span(), "||" if token == "&&" else "&&")
            elif token == "!":
                yield mutant("logic", *m.span(), "")
            elif token in ("true", "false"):
                yield mutant("constant", *m.span(), "false" if token == "true" else "true")
            elif token[0].isdigit():
                digits = token.rstrip("uUlL")
                value, suffix = int(digits, 0), token[len(digits):]
                form = "0x%x" if digits[:2] in ("0x", "0X") else "%d"
                for new in {value + 1, max(value - 1, 0)} - {value}:
                    yield mutant("constant", *m.span(), form % new + suffix)
        first = simple_statement(code, start, end)
        body = code[first:end]
        if re.match(r"return\b", body):
            value = text[first + 6:end - 1].strip()
            if value:
                at = text.index(value, first + 6)
                for new in ("0", "1", "!(" + " ".join(value.split()) + ")"):
                    if new != value and not (new == "0" and value in ("false", "NULL")) and \
                            not (new == "1" and value == "true"):
                        yield mutant("return", at, at + len(value), new)
        elif body.endswith(";") and body.strip(" ;\n") and not NO_EXPRESSION.match(body) and \
                not DECLARES.match(body) or re.match(r"goto\b", body):
            yield mutant("statement", first, end, ";")


def draws(folder, files, seed):
    """Yield all mutants in random order: draw a line of code, then a kind that the line has, then a
    mutant of that kind."""
    at = collections.defaultdict(list)
    for file in files:
        for m in changes(file, open(os.path.join(folder, file)).read()):
            at[m.file, m.line].append(m)
    lines, chance = sorted(at), random.Random(seed)
    while lines:
        line = chance.choice(lines)
        kinds = sorted({m.kind for m in at[line]})
        kind = chance.choice(kinds)
        m = chance.choice(sorted(m for m in at[line] if m.kind == kind))
        at[line].remove(m)
        if not at[line]:
            lines.remove(line)
        yield m


# ---- the tests -----------------------------------------------------------------------------------

Step = collections.namedtuple("Step", "name needs command env reach")
CORE = ("plugin/", "rules/", "nccl/", "base/")
CLI = ("cli/",)
RULES = ("rules/", "base/") + tuple(glob.glob("nccl/*.[ch]"))  # nccl/model is not a part of it
FAKE_AR = RULES + tuple("kernels/choose/%s.c" % n for n in ("select", "rules", "probe"))


def suites_of(pattern):
    for file in sorted(glob.glob(pattern, recursive=True)):
        for suite in re.findall(r'suite_create\("([^"]*)"\)', open(file).read()):
            yield suite, file


def steps_of_tests():
    """List the suites of `make test`, and of jax/hlo. reach: files whose code a suite contains."""
    def program(name, pattern, args, reach):
        for suite, file in suites_of(pattern):
            if suite != "ar_kernels on the CPU":
                yield Step("%s, suite %s" % (name, suite), ["build/" + name],
                           ["build/" + name] + args, {"CK_RUN_SUITE": suite}, reach)

    here = os.path.realpath(".")
    plugin = ["build/libsymtuner.so", "build/symtuner"]
    dropin, kernels = ("dropin/", "base/"), RULES + ("kernels/",)
    yield from program("check", "test/[bnrp]*/check_*.c", [], CORE)
    yield from program("check", "test/dropin/check_*.c", [],
                       ("dropin/tally.c", "dropin/comms.c", "dropin/meet.c",
                        "dropin/verify/compare.c"))
    yield from program("check-ar", "test/kernels/[!n]*/check_*.c", [], kernels)
    yield from program("check-ar", "test/kernels/check_*.c", [], kernels)
    yield from program("check-nodes", "test/kernels/nodes/check_[!ltv]*.c", [], kernels)
    yield from program("check-nodes-emu", "test/kernels/nodes/check_[ltv]*.c", [], kernels)
    yield from program("check-host", "test/host/check_*.c", [here + "/build/libsymtuner.so"], CORE)
    yield Step("test-so", plugin[:1], ["sh", "test/shared-object.sh", plugin[0]], {}, CORE)
    yield Step("test-golden", plugin, ["sh", "test/golden.sh", "build/symtuner"], {},
               CORE + CLI)
    yield Step("test-corpus", ["build/check-corpus"], ["sh", "test/corpus/run.sh", "build"], {},
               ("nccl/",))
    for name in ("doctor", "options"):
        yield Step("test-commands, " + name, plugin, ["sh", "test/cli/%s.sh" % name, "build"], {},
                   CORE + CLI)
    for name in ("completion", "files"):
        yield Step("test-commands, " + name, plugin, ["sh", "test/cli/%s.sh" % name, "build"], {},
                   CLI)
    yield Step("test-docs", plugin + ["build/test/demo/demo"], ["sh", "test/docs.sh", "build"], {},
               CORE + CLI)
    yield Step("test-commands, run", plugin, ["sh", "test/cli/run.sh", "build"], {},
               ("cli/run/", "dropin/tally.c") + tuple(glob.glob("cli/*.c")))
    yield Step("test-dropin", plugin[1:] + ["build/libsymtuner_nccl.so"],
               ["make", "-s", "test-dropin"], {}, dropin + ("cli/run/",))
    for part, reach in (("hlo", ("jax/hlo/", "jax/frame.c")), ("c", ("jax/",))):
        yield Step("test-jax, " + part, ["build/libsymtuner_ffi.so"],
                   ["sh", "test/mutants/jax.sh", "build", part], {}, reach)
    yield Step("test-commands, gpu", plugin, ["sh", "test/cli/gpu.sh", "build"], {},
               CORE + CLI + FAKE_AR)
    yield Step("test-ar, emulated", ["build/check-ar-kernels"], ["build/check-ar-kernels"], {},
               RULES + ("kernels/",))


def needs_of(step):
    return step.needs + (["build/libsymtuner.so"] if "check-host" in step.name else [])


def closest_first(file, steps, seconds):
    """Return the suite with the file's name first, then the others, the quickest first."""
    stem = os.path.basename(file).rsplit(".", 1)[0]
    return sorted((s for s in steps if file.startswith(s.reach)),
                  key=lambda s: (s.env.get("CK_RUN_SUITE") != stem, seconds.get(s.name, 0)))


def limits():
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # nohup ignores these signals, but tests send them
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write beyond the limit fails
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end_session(leader):
    """End all processes of a session. Ending a process group would not be enough, because libcheck
    gives each test a group of its own."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) == leader:
                os.kill(int(pid), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def run(command, cwd, env, limit):
    """Return (exit status, seconds). The status is None after the end of the time limit."""
    began = time.time()
    with open(os.path.join(cwd, "out.txt"), "w") as out:
        child = subprocess.Popen(command, cwd=cwd, env=dict(os.environ, **env), preexec_fn=limits,
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        end_session(child.pid)
        child.wait()
    return status, time.time() - began


def make(cwd, targets, jobs=1):
    return run(["make", "-s", "-j%d" % jobs] + targets, cwd, {}, 1800)[0] == 0


# ---- copies of the tree --------------------------------------------------------------------------

def copy_tree(folder):
    """Copy the files that git knows or would add, and nothing that was built."""
    shutil.rmtree(folder, ignore_errors=True)
    names = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "-z"]).decode()
    for name in filter(os.path.lexists, names.split("\0")):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copy2(name, os.path.join(folder, name), follow_symlinks=False)
    for words in (["init", "-q"], ["add", "-A"]):  # test-docs asks git which files there are
        subprocess.check_call(["git", "-C", folder] + words)


def listing(folder):
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            info = os.lstat(path)
            yield os.path.relpath(path, folder), (info.st_size, info.st_mtime_ns)


def restore(base, folder, file):
    """Undo the change: restore the file and what was built from it, with time stamps for make."""
    shutil.copy2(os.path.join(base, file), os.path.join(folder, file))
    want, have = dict(listing(base + "/build")), dict(listing(folder + "/build"))
    for name in have:
        if name not in want:
            os.unlink(os.path.join(folder, "build", name))
        elif have[name] != want[name]:
            os.unlink(os.path.join(folder, "build", name))
            shutil.copy2(os.path.join(base, "build", name), os.path.join(folder, "build", name),
                         follow_symlinks=False)


def plant(folder, m):
    path = os.path.join(folder, m.file)
    text = open(path).read()
    open(path, "w").write(text[:m.start] + m.new + text[m.end:])


def objects_of(base, file):
    """Return the objects that show whether a change had an effect."""
    if file.startswith("jax/"):
        return ["build/libsymtuner_ffi.so"]
    if file.endswith(".c"):
        folder = {"kernels": "check-ar-obj/", "dropin": "dropin-obj/"}.get(file.split("/")[0], "")
        return ["build/%s%s.o" % (folder, file)]
    return [os.path.relpath(d[:-2] + ".o", base) for folder in ("plugin", "rules", "nccl", "test")
            for d in sorted(glob.glob("%s/build/%s/*.d" % (base, folder)))
            if " %s" % file in open(d).read()]


def machine_code(folder, objects):
    code, bare = [], folder + "/stripped.o"
    for name in objects:
        subprocess.check_call(["strip", "-g", "-R", ".note.gnu.build-id", "-o", bare,
                               os.path.join(folder, name)])
        code.append(open(bare, "rb").read())
    return code


def counts(base, folder, m, known):
    """Return whether the mutant compiles, and gives another object file."""
    objects = objects_of(base, m.file)
    if m.file not in known:
        known[m.file] = machine_code(base, objects)
    plant(folder, m)
    fine = make(folder, objects) and machine_code(folder, objects) != known[m.file]
    restore(base, folder, m.file)
    return fine


# ---- all together --------------------------------------------------------------------------------

ONE_AT_A_TIME = threading.Lock()


def status_of(step, folder, seconds):
    command = [c.replace(os.path.realpath("."), os.path.realpath(folder)) for c in step.command]
    env = dict(step.env, TMPDIR=os.path.realpath(folder) + "/tmp", CK_TIMEOUT_MULTIPLIER="4")
    return run(command, folder, env, 30 + 10 * seconds[step.name])[0]


def fails(step, base, folder, seconds):
    """Return False, or how the suite fails. On a busy machine the unchanged tree may fail, too. So
    a suite must fail twice (a long one once), and then pass in the unchanged tree."""
    for again in range(4):
        status = status_of(step, folder, seconds)
        if status in (0, 77):
            return False
        if status is not None and not again and seconds[step.name] < 20:
            continue
        with ONE_AT_A_TIME:
            if status_of(step, base, seconds) in (0, 77):
                break
    return "too long" if status is None else "failed"


def judge(base, folder, m, steps, seconds):
    plant(folder, m)
    verdict, made = "survived", set()
    for step in closest_first(m.file, steps, seconds):
        if not made.issuperset(needs_of(step)) and not make(folder, needs_of(step)):
            verdict = "does not link"
            break
        made.update(needs_of(step))
        how = fails(step, base, folder, seconds)
        if how:
            verdict = "killed by " + step.name + (" (too long)" if how == "too long" else "")
            break
    restore(base, folder, m.file)
    return verdict


def prepare(base, jobs, files):
    """Build a copy of the tree, and run once all suites that contain code of the files. Return
    whether they pass, and how long they take."""
    seconds, bad = {}, []
    copy_tree(base)
    os.makedirs(base + "/tmp")
    if os.path.isdir("build"):
        shutil.copytree("build", base + "/build", symlinks=True)  # make sees what is out of date
    steps = [s for s in steps_of_tests() if any(f.startswith(s.reach) for f in files)]
    targets = sorted({t for s in steps for t in needs_of(s)})
    if not make(base, targets, jobs):
        print("mutants: the tree does not build, see %s/out.txt" % base, file=sys.stderr)
        sys.exit(2)
    for step in steps:
        command = [c.replace(os.path.realpath("."), os.path.realpath(base)) for c in step.command]
        env = dict(step.env, CK_TIMEOUT_MULTIPLIER="4")
        status, seconds[step.name] = run(command, base, env, 1200)
        if status not in (0, 77):
            status, seconds[step.name] = run(command, base, env, 1200)  # the machine may be busy
        if status == 77:
            print("not run to its end here: %s: %s" %
                  (step.name, open(base + "/out.txt").read().strip().split("\n")[-1]))
        elif status != 0:
            bad.append(step.name)
            print(open(base + "/out.txt").read()[-2000:])
    if bad:
        print("mutants: the tree itself fails: " + "; ".join(bad), file=sys.stderr)
        sys.exit(2)
    json.dump(seconds, open(base + "/seconds.json", "w"))
    return seconds


def main():
    ask = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--count", type=int, default=20)
    ask.add_argument("--skip", type=int, default=0, help="so many are drawn and not tested")
    ask.add_argument("--jobs", type=int, default=1, help="mutants tested at a time")
    ask.add_argument("--files", nargs="+", default=FILES, metavar="GLOB")
    ask.add_argument("--only", nargs="+", metavar="FILE:LINE", help="all mutants of these lines")
    ask.add_argument("--work", default="build-mutants", metavar="FOLDER", help="where copies go")
    ask.add_argument("--longest", type=float, default=1e9, metavar="SECONDS",
                     help="leave out suites that take longer")
    ask.add_argument("--again", action="store_true", help="the last run's copies, as built then")
    ask.add_argument("--list", action="store_true", help="print what would be drawn, build nothing")
    args = ask.parse_args()
    files = sorted({f for pattern in args.files for f in glob.glob(pattern)})
    if args.only:
        args.count = 10 ** 6
        files = sorted({place.split(":")[0] for place in args.only})
    base = "." if args.list else args.work + "/base"
    drawn = (m for m in draws(base, files, args.seed)
             if not args.only or "%s:%d" % (m.file, m.line) in args.only)
    if args.list:
        for _, m in zip(range(args.count), drawn):
            print(described(m))
        return 0

    seconds = (json.load(open(base + "/seconds.json")) if args.again
               else prepare(base, args.jobs, files))
    steps = [s for s in steps_of_tests() if seconds.get(s.name, float("inf")) <= args.longest]
    idle, pick, chosen, known, passed = queue.Queue(), args.work + "/pick", [], {}, 0
    for folder in [pick] + ["%s/%d" % (args.work, i) for i in range(args.jobs)]:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(base, folder, symlinks=True)
        idle.put(folder)
    idle.get()  # this is the folder ${pick}, which counts() uses

    def test(m):
        folder = idle.get()
        try:
            return judge(base, folder, m, steps, seconds)
        finally:
            idle.put(folder)

    sums, alive = collections.Counter(), []

    def report(m, verdict):
        line = "%s\t%s" % (described(m), verdict)
        print(line, flush=True)
        for key in (m.kind, m.file.split("/")[0], "all"):
            sums[key, verdict == "survived"] += 1
        if verdict == "survived":
            alive.append(line)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        told = 0
        for m in drawn:
            if len(chosen) == args.count:
                break
            if counts(base, pick, m, known):
                if len(chosen) < args.skip:
                    chosen.append((m, pool.submit(lambda: "skipped")))
                else:
                    chosen.append((m, pool.submit(test, m)))
            else:
                passed += 1
            while told < len(chosen) and chosen[told][1].done():
                report(chosen[told][0], chosen[told][1].result())
                told += 1
        for m, future in chosen[told:]:
            report(m, future.result())
    print("\nseed %d: %d mutants; %d more did not compile or changed no object file" %
          (args.seed, len(chosen), passed))
    for key in sorted({key for key, _ in sums}):
        dead, living = sums[key, False], sums[key, True]
        print("%-12s killed %3d of %3d" % (key, dead, dead + living))
    print("\nsurvived:\n" + "\n".join(alive) if alive else "\nnone survived")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
