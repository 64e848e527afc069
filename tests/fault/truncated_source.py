#!/usr/bin/env python3
"""Truncates the source while hfshard reads it. The result is an error that names the file, never a signal.

It truncates before random system calls of a conversion with each --io, and of `verify` against the source. It also
does so before each read of `inspect`, for a file with a header of many megabytes. Missing pages of a mapping would
end the process.
"""

import json
import os
import subprocess
import sys

import harness

MODES = ("mmap", "auto", "direct", "buffered")
HEADER_BYTES = 24 << 20
VERIFY_READS = 200  # it has more
INSPECT_READS = 3  # the length, the header, and one more


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


def truncated(fault, command, path, data, call, left):
    """Runs a command and truncates the file before a system call. Returns its status."""
    restore(path, data)
    process, _ = fault.start_until(command, call)
    os.truncate(path, left)
    said = fault.go_on(process)
    what = f"{' '.join(command)}, truncated to {left} bytes before call {call}"
    fault.expect(process.returncode in (0, 3, 4), f"{what}: status {process.returncode}\n{said}")
    if process.returncode != 0:
        fault.expect(os.path.basename(path) in said, f"{what}: the message does not name the file\n{said}")
    return process.returncode


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        reference, calls = fault.reference(), fault.count_calls()
        source = fault.path("source")
        path = max((os.path.join(source, name) for name in os.listdir(source) if name.endswith(".safetensors")),
                   key=os.path.getsize)
        with open(path, "rb") as file:
            data = file.read()
        endings = {}

        def count(what, status):
            endings[what, status] = endings.get((what, status), 0) + 1

        for number in range(2 * fault.arguments.rounds):
            mode = MODES[number % len(MODES)] if number % 2 else "mmap"
            name = f"out{number}"
            left = fault.random.choice((0, 4096, fault.random.randrange(len(data))))
            status = truncated(fault, fault.convert(name, "--io", mode), path, data, fault.random.randint(1, calls), left)
            if status == 0:
                fault.expect_same(name, reference, "truncated after it was read")
                subprocess.run(["rm", "-rf", fault.path(name)], check=True)
            else:
                fault.expect(not os.path.lexists(fault.path(name)), "a failed run left an output")
                fault.run("clean", fault.path(name))
            count(f"convert --io {mode}", status)
        restore(path, data)
        verify = fault.command("verify", fault.path("reference"), source, "--quiet")
        for number in range(fault.arguments.rounds // 2):
            call = f"pread:{fault.random.randint(1, VERIFY_READS)}"
            count("verify", truncated(fault, verify, path, data, call, fault.random.randrange(len(data))))
        long = with_long_header(data)
        inspect = fault.command("inspect", path)
        for number in range(fault.arguments.rounds):
            call = f"pread:{number % INSPECT_READS + 1}"
            count("inspect", truncated(fault, inspect, path, long, call, fault.random.randrange(HEADER_BYTES)))
        for (what, status), times in sorted(endings.items()):
            print(f"{what}: {times} ended with {status}")
        fault.expect(endings.get(("convert --io mmap", 3), 0) > 0, "no conversion was truncated in time")
        fault.expect(endings.get(("inspect", 3), 0) > 0, "no header was truncated in time")
        return 0


if __name__ == "__main__":
    sys.exit(main())
