#!/usr/bin/env python3
"""Checks that torchtitan's own Trainer resumes from a resharded checkpoint like from its own. The next three losses and
all states are bit-equal.

A small Llama is trained for six steps on two ranks (FSDP) and saves steps 3 and 6. Step 3 is resharded, resumed on
the same ranks, and trained to step 6. `--all` also resumes the original and the resharded checkpoint on another mesh
(FSDP and tensor parallelism on four ranks), and prints the losses side by side: the transcript of docs/proof.md.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import interop

PEER = os.path.join(interop.HERE, "peers", "torchtitan_train.py")
WRITTEN_FOR = "fsdp=4,tensor=2"


def step(folder, number):
    return os.path.join(folder, "checkpoint", f"step-{number}")


def resharded(tool, source, folder):
    """Returns the arguments that put a resharded copy of a step where a run resumes from."""
    return [tool.program, "reshard", source, step(folder, 3), "--mesh", WRITTEN_FOR, "--quiet"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    python = os.environ.get("HFSHARD_PEER_PYTHON")
    if not python:
        print("PEER MISSING torchtitan")
        sys.exit(interop.SKIP_STATUS)
    folder = tempfile.mkdtemp(prefix="hfshard-resume-")
    try:
        tool = interop.Program(arguments.hfshard, folder)
        first, same, turned, original = (tool.path(name) for name in ("first", "same", "turned", "original"))
        two = {"steps": 6, "fsdp": 2, "tensor": 1}
        four = {"steps": 6, "fsdp": 2, "tensor": 2}
        runs = [{"folder": first, **two}, resharded(tool, step(first, 3), same), {"folder": same, **two}]
        if arguments.all:
            os.makedirs(os.path.join(original, "checkpoint"))
            runs += [["cp", "-r", step(first, 3), step(original, 3)], {"folder": original, **four},
                     resharded(tool, step(first, 3), turned), {"folder": turned, **four}]
        for run in runs:
            if isinstance(run, dict):
                os.makedirs(os.path.join(run["folder"], "checkpoint"), exist_ok=True)
        done = subprocess.run([python, PEER], input=json.dumps(runs), capture_output=True, text=True, check=False)
        if done.returncode == interop.SKIP_STATUS:
            print(done.stdout)
            sys.exit(interop.SKIP_STATUS)
        tool.expect(done.returncode == 0, done.stderr[-3000:])
        if done.returncode == 0:
            compare(tool, json.loads(done.stdout), arguments.all, [(first, same), (original, turned)])
        return tool.verdict()
    finally:
        shutil.rmtree(folder)


def compare(tool, losses, everything, folders):
    pairs = [("fsdp=2", losses[0], losses[1])]
    if everything:
        pairs.append(("fsdp=2,tensor=2", losses[2], losses[3]))
    for (name, one, other), (a, b) in zip(pairs, folders):
        for number in ("4", "5", "6"):
            if everything:
                print(f"{name:16} step {number}: {float.fromhex(one[number]):.10f} from its own checkpoint, "
                      f"{float.fromhex(other[number]):.10f} from the resharded one")
            tool.expect(one[number] == other[number], f"{name}: the loss of step {number} is {other[number]}, not {one[number]}")
        said = tool.json("diff", step(a, 6), step(b, 6))
        tool.expect(said["equal"] and said["compared_objects"] > 100, f"{name}: step 6 differs: {said['structure'][:3]}")


if __name__ == "__main__":
    sys.exit(main())
