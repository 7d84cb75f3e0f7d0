# SPDX-License-Identifier: Apache-2.0
"""A fake of the worker that bench/scoreboard starts for each rank of a crew. It needs no torch and
no GPU, and its times are known. With FAKE_TROUBLE=CREW:WHAT the workers of that crew misbehave.
WHAT is end (rank 1 ends), hang (rank 0 hangs at its first call), wrong (it gives wrong results) or
no (it refuses to start)."""
import json
import os
import sys
import time

crew, rank = sys.argv[1], int(os.environ["RANK"])
trouble = dict(word.split(":")
               for word in os.environ.get("FAKE_TROUBLE", "").split(",") if word).get(crew)
reply = os.fdopen(int(os.environ["SCOREBOARD_REPLY"]), "w", buffering=1)
OURS = float(os.environ.get("FAKE_OURS", "1"))
FACTOR = {"ours": OURS, "general": 2, "own": 1.5, "1shot_push": 1.1, "16": 1.2}
if crew == "ours":
    FACTOR["default"] = OURS    # only of our crew, because SGLang has a kernel of this name, too
slots = {}
log = open(os.environ["FAKE_LOG"], "a", buffering=1) if "FAKE_LOG" in os.environ else None


def say(**answer):
    reply.write(json.dumps(answer) + "\n")


def answer(do, slot=0, how="", coll="", bytes=0, calls=0, replays=0, samples=0, gemms=0, **_):
    if do == "prepare":
        if trouble == "wrong":
            return {"no": "WRONG: element 0 is 1, not 2"}
        if how == "two_shot":
            return {"no": "too few tokens"}
        slots[slot] = (how, bytes)
        return {"ok": how}
    if do == "drop":
        slots.clear()
        return {"ok": ""}
    if trouble == "hang" and rank == 0:
        time.sleep(1000)
    if trouble == "end" and rank == 1:
        sys.exit(1)
    how, size = slots[slot]
    if log and rank == 0 and samples > 1:
        log.write(f"{crew} {slot}\n")
    us = (2 + size / 100000) * FACTOR.get(how, 1.3) + 0.001 * rank    # rank 1 is the slowest
    return {"us": [us * 1.5, us, us * 0.9][:samples] if do == "alone"
            else gemms * 1400 + replays * us}


if trouble == "no":
    say(no="ImportError: no such library")
    sys.exit(1)
say(ok="fake")
for line in sys.stdin:
    say(**answer(**json.loads(line)))
