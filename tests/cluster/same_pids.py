#!/usr/bin/env python3
"""Runs workers that start at the same time in separate PID namespaces, like pods. All have the same process id.

Each round starts all workers of one output at once, and one of them twice. All must end with status 0, and the
output must be that of one process. Skipped (77) if it can't make a PID namespace.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import recipes

SKIP_STATUS = 77
WORKERS = 4


def in_namespace(command):
    """Returns the command as the first process of a namespace. Its process id is the same in each."""
    return ["unshare", "--pid", "--fork", *command]


def refusal():
    """Returns the reason why namespaces aren't possible here, or None."""
    if shutil.which("unshare") is None:
        return "there is no unshare(1)"
    done = subprocess.run(in_namespace(["sh", "-c", "echo $$"]), capture_output=True, text=True, check=False)
    return None if done.returncode == 0 and done.stdout.strip() == "1" else done.stderr.strip() or "no namespace"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the program, or the test tool with the same commands")
    parser.add_argument("--limits", help="passed as --limits; only the test tool has that option")
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    reason = refusal()
    if reason:
        print(f"SKIP: no PID namespaces: {reason}")
        return SKIP_STATUS
    program = [os.path.abspath(arguments.hfshard), *(["--limits", arguments.limits] if arguments.limits else [])]
    with tempfile.TemporaryDirectory(prefix="hfshard-pids-") as folder:
        source, reference = os.path.join(folder, "source"), os.path.join(folder, "reference")
        recipes.run([program[0], "mappings", "example", "qwen3", source])
        recipes.run([*program, "convert", source, reference, "--mesh", recipes.MESH])
        for number in range(arguments.rounds):
            out = os.path.join(folder, f"out{number}")
            recipes.run_together([(in_namespace([*program, "convert", source, out, "--mesh", recipes.MESH, "--quiet",
                                                 "--jobs", "1", "--worker", f"{worker}/{WORKERS}"]), {})
                                  for worker in [*range(WORKERS), 1]])
            recipes.run([*program, "finalize", out])
            if not recipes.same(out, reference):
                sys.exit(f"FAIL: round {number + 1}: the output differs from that of one process")
            shutil.rmtree(out)
        print(f"{arguments.rounds} of {arguments.rounds} rounds of {WORKERS + 1} workers with one process id")
    return 0


if __name__ == "__main__":
    sys.exit(main())
