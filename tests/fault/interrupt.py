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
import time

import harness


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        reference, seconds = fault.reference()
        done = attempts = left = 0
        while done < fault.arguments.rounds:
            attempts += 1
            fault.expect(attempts <= 20 * fault.arguments.rounds, "most conversions end before the signal")
            name = f"out{attempts}"
            process = fault.start(fault.convert(name))
            # Not in the first instants, when a signal simply ends the process because the handlers aren't set yet.
            time.sleep(fault.random.uniform(0.2, 0.9) * seconds)
            process.send_signal(signal.SIGINT if done % 2 == 0 else signal.SIGTERM)
            _, said = process.communicate(timeout=60)
            if process.returncode in (0, -signal.SIGINT, -signal.SIGTERM):
                continue
            fault.expect(process.returncode == 130, f"status {process.returncode} after a signal:\n{said}")
            fault.expect("--resume" in said, f"the resume command is not printed:\n{said}")
            fault.expect(not os.path.lexists(fault.path(name)), "an interrupted conversion left an output")
            resume = fault.convert(name, "--resume", "--json")
            finished = subprocess.run(resume, capture_output=True, text=True, check=False)
            fault.check(finished)
            left += json.loads(finished.stdout)["written_bytes"]
            fault.expect_same(name, reference, f"round {done + 1}")
            done += 1
        fault.expect(left > 0, "every interrupted conversion had written all of its data before it ended")
        print(f"{done} interrupted conversions ended with 130 and resumed to identical trees")
        return 0


if __name__ == "__main__":
    sys.exit(main())
