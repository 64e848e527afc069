#!/usr/bin/env python3
"""Kills conversions with SIGKILL at random instants, resumes them, and compares the outputs byte for byte.

After each kill, the output is absent or complete, never a mixture. Then `convert --resume` gives the tree of an
uninterrupted conversion. Some rounds are killed several times before they may finish. Rounds that finish before the
signal don't count. The seed is printed, and `--seed` repeats a run's instants.

An uninterrupted run must write at least 20 journal records. Some of the resumed runs must find finished work and not
repeat it. Otherwise the kills wouldn't show anything.
"""

import json
import os
import signal
import subprocess
import sys

import harness


def kill_once(fault, name, instants, reference, options):
    """Starts a conversion and kills it at a random instant. Returns True if it was still running."""
    process = fault.start(fault.convert(name, *options))
    instants.sleep()
    killed = process.poll() is None
    if killed:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    if process.returncode not in (0, -signal.SIGKILL):
        fault.expect(False, f"a conversion ended by itself with {process.returncode}")
    if os.path.lexists(fault.path(name)):
        fault.expect(fault.tree(name) == reference, "the output was published before it was complete")
    return process.returncode == -signal.SIGKILL


def count_records(fault):
    """Returns the number of journal records of an uninterrupted conversion."""
    counted = fault.check(subprocess.run(fault.convert("counted", "--json"), capture_output=True, text=True, check=False))
    records = json.loads(counted.stdout)["journal_records"]
    fault.expect(records >= 20, f"the conversion writes {records} journal records, at least 20 are wanted")
    return records


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        reference, seconds = fault.reference()
        records = count_records(fault)
        print(f"{len(reference)} entries, {records} journal records, {seconds:.2f} s uninterrupted", flush=True)
        instants = harness.Instants(fault, seconds)
        done = attempts = resumed = skipped = 0
        while done < fault.arguments.rounds or not skipped:
            attempts += 1
            fault.expect(attempts <= 20 * fault.arguments.rounds, "no conversion can be killed in its middle")
            name = f"out{attempts}"
            if not kill_once(fault, name, instants, reference, []):
                instants.was_late()
                continue
            for _ in range(fault.random.choice((0, 0, 1, 3))):
                kill_once(fault, name, instants, reference, ["--resume"])
            resumed += os.path.isdir(fault.staging(name))
            finished = subprocess.run(fault.convert(name, "--resume", "--json"), capture_output=True, text=True,
                                      check=False)
            if json.loads(fault.check(finished).stdout)["skipped_bytes"] > 0:
                skipped += 1
            else:
                instants.was_early()
            fault.expect_same(name, reference, f"round {done + 1}")
            done += 1
        print(f"{done} rounds identical; {resumed} resumed from a staging directory, "
              f"{skipped} of them skipped finished work, {attempts - done} conversions ended before the kill")
        return 0


if __name__ == "__main__":
    sys.exit(main())
