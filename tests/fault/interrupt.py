#!/usr/bin/env python3
"""Interrupts conversions with SIGINT (Ctrl-C) and SIGTERM at random instants.

hfshard drains, ends with status 130, prints how to resume, and leaves no output. Resuming gives the tree of an
uninterrupted conversion.
"""

import json
import os
import signal
import subprocess
import sys

import harness
import testing  # (found by harness)


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        reference, seconds = fault.reference()
        # Not in the first instants, when a signal simply ends the process because the handlers aren't set yet.
        instants = harness.Instants(fault, seconds, 0.2, 0.9)
        done = attempts = left = 0
        while done < fault.arguments.rounds or not left:
            attempts += 1
            fault.expect(attempts <= 20 * fault.arguments.rounds, "no conversion can be interrupted in its middle")
            name = f"out{attempts}"
            process = fault.start(fault.convert(name))
            instants.sleep()
            process.send_signal(signal.SIGINT if done % 2 == 0 else signal.SIGTERM)
            _, said = process.communicate(timeout=testing.HANG_SECONDS)
            if process.returncode in (-signal.SIGINT, -signal.SIGTERM):
                instants.was_early()
                continue
            if process.returncode == 0:
                instants.was_late()
                continue
            fault.expect(process.returncode == 130, f"status {process.returncode} after a signal:\n{said}")
            fault.expect("--resume" in said, f"the resume command is not printed:\n{said}")
            fault.expect(not os.path.lexists(fault.path(name)), "an interrupted conversion left an output")
            resume = fault.convert(name, "--resume", "--json")
            finished = subprocess.run(resume, capture_output=True, text=True, check=False)
            fault.check(finished)
            written = json.loads(finished.stdout)["written_bytes"]
            if not written:
                instants.was_late()
            left += written
            fault.expect_same(name, reference, f"round {done + 1}")
            done += 1
        print(f"{done} interrupted conversions ended with 130 and resumed to identical trees")
        return 0


if __name__ == "__main__":
    sys.exit(main())
