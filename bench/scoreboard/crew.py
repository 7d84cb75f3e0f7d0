# SPDX-License-Identifier: Apache-2.0
"""The processes of a crew: one per GPU, each with a pipe to and a pipe from it.

A question is one line of JSON to every process, the answer one line of JSON from each. The
questions, which worker.py answers:

    {"do": "prepare", "slot": N, "how": HOW, "coll": C, "type": T, "bytes": B, "calls": N}
        {"ok": what runs} or {"no": why not}; the result has been checked
    {"do": "alone", "slot": N, "replays": N, "samples": N}      {"us": [microseconds per call, ...]}
    {"do": "beside", "slot": N, "replays": N, "gemms": N}   {"us": microseconds until all was done}
    {"do": "drop"}                                          {"ok": ""}: forget what was prepared

If one process ends, or does not answer in time, its whole crew is ended. So if a project hangs,
only its own times are missing.
"""
import json
import os
import selectors
import subprocess
import sys
import time


class Crew:
    def __init__(self, name, worker, ranks, env, most, port):
        self.name, self.lost, self.processes, self.pipes, self.left = name, None, [], [], {}
        for rank in range(ranks):
            reader, writer = os.pipe()
            self.processes.append(subprocess.Popen(
                [sys.executable, worker, name, str(most)], stdin=subprocess.PIPE, stdout=sys.stderr,
                pass_fds=[writer], text=True, bufsize=1,
                env={**os.environ, **env, "RANK": str(rank), "LOCAL_RANK": str(rank),
                     "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": str(port), "SCOREBOARD_REPLY": str(writer)}))
            os.close(writer)
            self.pipes.append(reader)
            self.left[reader] = b""

    def end(self, why):
        """End the crew. Its workers have nothing to clean up."""
        if self.lost is None:
            self.lost = why
            for process in self.processes:
                process.kill()
            for process, pipe in zip(self.processes, self.pipes):
                process.wait()
                os.close(pipe)

    def receive(self, seconds):
        """Return one answer of each process, or None if the crew has ended."""
        answers, until = {}, time.monotonic() + seconds
        with selectors.DefaultSelector() as wait:
            for pipe in self.pipes:
                wait.register(pipe, selectors.EVENT_READ)
            while len(answers) < len(self.pipes):
                ready = wait.select(max(0, until - time.monotonic()))
                if not ready:
                    return self.end(f"no answer for {seconds} s")
                for key, _ in ready:
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        return self.end("a process ended, see above")
                    self.left[key.fd] += data
                    line, newline, rest = self.left[key.fd].partition(b"\n")
                    if newline:
                        answers[key.fd], self.left[key.fd] = json.loads(line), rest
                        wait.unregister(key.fd)
        return [answers[pipe] for pipe in self.pipes]

    def ask(self, seconds=40, **question):
        """Ask all processes. Returns their answers, or None if the crew is lost."""
        if self.lost is not None:
            return None
        try:
            for process in self.processes:
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
        except OSError:
            return self.end("a process does not listen")
        return self.receive(seconds)

    def ready(self):
        """Wait until all processes have started. Returns what the first process says of its
        project, or None if the crew is lost."""
        answers = self.receive(180) if self.lost is None else None
        refused = [a["no"] for a in answers or [] if "no" in a]
        if refused:
            return self.end(refused[0])
        return answers[0]["ok"] if answers else None
