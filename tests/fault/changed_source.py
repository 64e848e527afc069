#!/usr/bin/env python3
"""Changes the source between a kill and the resume: resuming must refuse, and name the file.

The staging directory stays as it was, and once the source is as before, resuming gives the uninterrupted tree.
"""

import os
import signal
import subprocess
import sys
import time

import harness


def killed(fault, name, seconds):
    """Kills conversions to `name` until one leaves a staging directory and no output."""
    for _ in range(100):
        process = fault.start(fault.convert(name))
        time.sleep(fault.random.uniform(0.2, 0.8) * seconds)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if os.path.isdir(fault.staging(name)):
            return name
        name += "x"
    fault.expect(False, "no conversion was killed in time")


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        reference, seconds = fault.reference()
        name = killed(fault, "out", seconds)
        source = fault.path("source")
        data = sorted(entry for entry in os.listdir(source) if entry.endswith(".safetensors"))[0]
        file = os.path.join(source, data)
        before = os.stat(file)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
        refused = subprocess.run(fault.convert(name, "--resume"), capture_output=True, text=True, check=False)
        fault.check(refused, 3)
        fault.expect(data in refused.stderr, f"the message does not name {data}:\n{refused.stderr}")
        fault.expect(os.path.isdir(fault.staging(name)), "a refused resume removed the staging directory")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        fault.check(subprocess.run(fault.convert(name, "--resume"), capture_output=True, text=True, check=False))
        fault.expect_same(name, reference, "after the source was restored")
        print("a changed source is refused by name, and the staging directory survives it")
        return 0


if __name__ == "__main__":
    sys.exit(main())
