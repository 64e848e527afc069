#!/usr/bin/env python3
"""Kills conversions with SIGKILL at random system calls, resumes them, and compares the outputs byte for byte.

After each kill, the output is absent or complete, never a mixture. Then `convert --resume` gives the tree of an
uninterrupted conversion. Some rounds are killed several times before they may finish. Kills come before the system
calls that can change something, and a seed gives the same calls each time.

An uninterrupted run must write at least 20 journal records. Some of the resumed runs must find finished work and not
repeat it. Otherwise the kills wouldn't show anything.
"""

import json
import os
import signal
import subprocess
import sys

import harness


def run(fault, name, *options):
    return subprocess.run(fault.convert(name, *options), capture_output=True, text=True, check=False)


def kill_once(fault, name, calls, reference, *options):
    """Runs a conversion that is killed at a random system call. A resumed one can end before that."""
    call = fault.random.randint(1, calls)
    done = run(fault, name, *options, "--die-at", str(call))
    killed = done.returncode == -signal.SIGKILL
    fault.expect(killed or (options and done.returncode == 0), f"killed at call {call}: status {done.returncode}\n{done.stderr}")
    if os.path.lexists(fault.path(name)):
        fault.expect(fault.tree(name) == reference, "the output was published before it was complete")


def count_records(fault):
    """Returns the number of journal records of an uninterrupted conversion."""
    records = json.loads(fault.check(run(fault, "recorded", "--json")).stdout)["journal_records"]
    fault.expect(records >= 20, f"the conversion writes {records} journal records, at least 20 are wanted")
    return records


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        reference = fault.reference()
        records, calls = count_records(fault), fault.count_calls()
        print(f"{len(reference)} entries, {records} journal records, {calls} system calls that change something", flush=True)
        resumed = skipped = 0
        for number in range(fault.arguments.rounds):
            name = f"out{number}"
            kill_once(fault, name, calls, reference)
            for _ in range(fault.random.choice((0, 0, 1, 3))):
                kill_once(fault, name, calls, reference, "--resume")
            resumed += os.path.isdir(fault.staging(name))
            finished = run(fault, name, "--resume", "--json")
            skipped += json.loads(fault.check(finished).stdout)["skipped_bytes"] > 0
            fault.expect_same(name, reference, f"round {number + 1}")
        print(f"{fault.arguments.rounds} rounds identical; {resumed} resumed from a staging directory, "
              f"{skipped} of them skipped finished work")
        fault.expect(skipped > 0, "no resumed conversion skipped finished work")
        return 0


if __name__ == "__main__":
    sys.exit(main())
