#!/usr/bin/env python3
"""Truncates the source while hfshard reads it. The result is an error that names the file, never a signal.

It truncates at random instants of a conversion with each --io, and of `verify` against the source. It also does so
during `inspect` of a file with a header of many megabytes, where parsing takes most of the time. Missing pages of a
mapping would end the process.
"""

import json
import os
import subprocess
import sys
import time

import harness
import testing  # (found by harness)

MODES = ("mmap", "auto", "direct", "buffered")
HEADER_BYTES = 24 << 20


def restore(path, data):
    with open(path, "wb") as file:
        file.write(data)


def with_long_header(data):
    """Returns the same tensors after a header with a lot of metadata."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    count = HEADER_BYTES // 64
    header["__metadata__"] = {f"{key:020}": "v" * 32 for key in range(count)}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length:]


def truncated(fault, command, path, data, instants, left):
    """Runs a command and truncates the file during it. Returns its status."""
    restore(path, data)
    process = fault.start(command)
    instants.sleep()
    os.truncate(path, left)
    _, said = process.communicate(timeout=testing.HANG_SECONDS)
    what = f"{' '.join(command)}, truncated to {left} bytes"
    fault.expect(process.returncode in (0, 3, 4), f"{what}: status {process.returncode}\n{said}")
    if process.returncode != 0:
        fault.expect(os.path.basename(path) in said, f"{what}: the message does not name the file\n{said}")
    else:
        instants.was_late()
    return process.returncode


def timed(command):
    started = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - started


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        reference, seconds = fault.reference()
        source = fault.path("source")
        path = max((os.path.join(source, name) for name in os.listdir(source) if name.endswith(".safetensors")),
                   key=os.path.getsize)
        with open(path, "rb") as file:
            data = file.read()
        endings = {}
        instants = harness.Instants(fault, seconds)

        def count(what, status):
            endings[what, status] = endings.get((what, status), 0) + 1

        def numbers(wanted, what):
            """Counts, and goes on until one was truncated in time."""
            for number in range(20 * wanted):
                if number < wanted or not endings.get((what, 3)):
                    yield number

        for number in numbers(2 * fault.arguments.rounds, "convert --io mmap"):
            mode = MODES[number % len(MODES)] if number % 2 else "mmap"
            name = f"out{number}"
            left = fault.random.choice((0, 4096, fault.random.randrange(len(data))))
            status = truncated(fault, fault.convert(name, "--io", mode), path, data, instants, left)
            if status == 0:
                fault.expect_same(name, reference, "truncated after it was read")
                subprocess.run(["rm", "-rf", fault.path(name)], check=True)
            else:
                fault.expect(not os.path.lexists(fault.path(name)), "a failed run left an output")
                fault.run("clean", fault.path(name))
            count(f"convert --io {mode}", status)
        restore(path, data)
        verify = fault.command("verify", fault.path("reference"), source, "--quiet")
        instants = harness.Instants(fault, timed(verify))
        for number in range(fault.arguments.rounds // 2):
            count("verify", truncated(fault, verify, path, data, instants, fault.random.randrange(len(data))))
        long = with_long_header(data)
        restore(path, long)
        inspect = fault.command("inspect", path)
        instants = harness.Instants(fault, timed(inspect))
        for _ in numbers(fault.arguments.rounds, "inspect"):
            count("inspect", truncated(fault, inspect, path, long, instants, fault.random.randrange(HEADER_BYTES)))
        for (what, status), times in sorted(endings.items()):
            print(f"{what}: {times} ended with {status}")
        fault.expect(endings.get(("convert --io mmap", 3), 0) > 0, "no conversion was truncated in time")
        fault.expect(endings.get(("inspect", 3), 0) > 0, "no header was truncated in time")
        return 0


if __name__ == "__main__":
    sys.exit(main())
