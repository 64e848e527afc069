#!/usr/bin/env python3
"""Interrupts conversions with SIGINT (Ctrl-C) and SIGTERM at random system calls.

hfshard drains, ends with status 130, prints how to go on, and leaves no output. It says truly whether it kept data.
Resuming gives the tree of an uninterrupted conversion.
"""

import json
import os
import signal
import subprocess
import sys

import harness


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        reference, calls = fault.reference(), fault.count_calls()
        late = left = 0
        for number in range(fault.arguments.rounds):
            name = f"out{number}"
            call = fault.random.randint(1, calls)
            option = "--resume" if number % 2 == 0 else "--overwrite"  # which continues a run too
            asked = [option] if option == "--overwrite" else []
            process, stopped = fault.start_until(fault.convert(name, *asked), call)
            fault.expect(stopped, f"a conversion ended before call {call}")
            process.send_signal(signal.SIGINT if number % 4 < 2 else signal.SIGTERM)
            said = fault.go_on(process)
            if process.returncode == 0:  # it was publishing
                fault.expect_same(name, reference, f"a signal at call {call}")
                late += 1
                continue
            fault.expect(process.returncode == 130, f"status {process.returncode} after a signal at call {call}:\n{said}")
            kept = "kept everything written so far" in said
            fault.expect((option if kept else "hfshard kept nothing") in said, f"nothing says how to go on:\n{said}")
            fault.expect(kept or "--resume" not in said, f"there is nothing to resume:\n{said}")
            fault.expect("--resume" not in said or not asked, f"{option} and --resume exclude each other:\n{said}")
            fault.expect(not os.path.lexists(fault.path(name)), "an interrupted conversion left an output")
            resume = fault.convert(name, "--resume", "--json")
            finished = subprocess.run(resume, capture_output=True, text=True, check=False)
            fault.check(finished)
            found = json.loads(finished.stdout)
            fault.expect(kept == (found["skipped_bytes"] > 0), f"{found['skipped_bytes']} bytes were kept:\n{said}")
            left += found["written_bytes"]
            fault.expect_same(name, reference, f"round {number + 1}")
        fault.expect(left > 0, "every interrupted conversion had written all of its data before it ended")
        print(f"{fault.arguments.rounds - late} interrupted conversions ended with 130 and resumed to identical trees, "
              f"{late} were too late to interrupt")
        return 0


if __name__ == "__main__":
    sys.exit(main())
