#!/usr/bin/env python3
"""Lets the system refuse writes. A limit on the size of files, at random sizes, simulates a disk that fills up.

hfshard ends with status 4 and names the file. No output appears. Resuming without the limit gives the tree of an
uninterrupted conversion.
"""

import os
import resource
import signal
import subprocess
import sys

import harness
import testing  # (found by harness)


def limited(size_bytes):
    """Runs in the child before the program starts."""
    def apply():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # EFBIG from write instead of a signal
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))
    return apply


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        reference = fault.reference()
        largest = max(os.path.getsize(os.path.join(fault.path("reference"), name))
                      for name in reference if not name.endswith("/"))
        for number in range(fault.arguments.rounds):
            name = f"out{number}"
            size = fault.random.choice((0, 100, 4096, fault.random.randrange(largest)))
            process = fault.start(fault.convert(name), preexec_fn=limited(size))
            _, said = process.communicate(timeout=testing.HANG_SECONDS)
            fault.expect(process.returncode == 4, f"status {process.returncode} with files of {size} bytes:\n{said}")
            fault.expect("file" in said, f"the message names no file:\n{said}")
            fault.expect(not os.path.lexists(fault.path(name)), "a failed conversion left an output")
            finished = subprocess.run(fault.convert(name, "--resume"), capture_output=True, text=True, check=False)
            fault.check(finished)
            fault.expect_same(name, reference, f"files of {size} bytes")
        print(f"{fault.arguments.rounds} refused writes ended with status 4 and resumed to identical trees")
        return 0


if __name__ == "__main__":
    sys.exit(main())
