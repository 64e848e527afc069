#!/usr/bin/env python3
"""Changes the source between a kill and the resume, and during a run. hfshard must refuse that and name the file.

Between a kill and the resume, the staging directory stays, if the killed run has noted finished work. Otherwise the
next run starts anew. Restoring the time doesn't help, since an edit could hide
behind it. A second name for a file isn't a change, so resuming gives the uninterrupted tree. During a run, the changes
come at random instants, with each way of reading. They are a rewrite of equal size, another file under the name, an
edit in place, the same with its time restored, and appended bytes. A run that ends with status 0 has published the old
tree or the new one, never a mixture. Every other run ends with 3 or 4, and publishes nothing.
"""

import os
import signal
import subprocess
import sys
import time

import harness


def has_record(staging):
    """Returns whether a run has noted finished work. Before that, its staging directory belongs to no source."""
    try:
        return any(entry.name.startswith("journal.") and entry.stat().st_size > 0 for entry in os.scandir(staging))
    except FileNotFoundError:
        return False


def killed(fault, name):
    """Kills conversions to `name` until one leaves finished work and no output."""
    for _ in range(100):
        process = fault.start(fault.convert(name))
        while process.poll() is None and not has_record(fault.staging(name)):
            time.sleep(0.001)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if has_record(fault.staging(name)) and not os.path.lexists(fault.path(name)):  # afterwards it's complete
            return name
        name += "x"
    fault.expect(False, "no conversion was killed in time")


def check_nothing_noted(fault, path, data):
    """Checks a run that was killed before it noted any work. The next run starts anew, from the changed source."""
    name = "nothing"
    for _ in range(100):
        process = fault.start(fault.convert(name))
        while process.poll() is None and not os.path.isfile(os.path.join(fault.staging(name), "plan.json")):
            time.sleep(0.0005)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if os.path.lexists(fault.path(name)):
            name += "x"
            continue
        for entry in os.scandir(fault.staging(name)):
            if entry.name.startswith("journal."):
                os.remove(entry.path)
        break
    rewrite(path, data)
    fault.check(subprocess.run(fault.convert(name, "--resume"), capture_output=True, text=True, check=False))
    fault.check(subprocess.run(fault.convert("anew"), capture_output=True, text=True, check=False))
    fault.expect_same(name, fault.tree("anew"), "a run that had noted nothing, after a change of the source")


def rewrite(path, data):
    with open(path, "wb") as file:
        file.write(data)


def replace(path, data):
    rewrite(path + ".new", data)
    os.rename(path + ".new", path)


def edit(path, data):
    """Edits in place, from front to end, a piece at a time. It takes as long as the reader."""
    with open(path, "r+b") as file:
        for at in range(0, len(data), 1 << 20):
            file.seek(at)
            file.write(data[at:at + (1 << 20)])


def edit_quietly(path, data):
    before = os.stat(path)
    edit(path, data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def append(path, _):
    with open(path, "ab") as file:
        file.write(b"more")


def other_values(data):
    """Returns the same file with every value changed. The header and the size stay."""
    begin = 8 + int.from_bytes(data[:8], "little")
    ones = int.from_bytes(b"\1" * (len(data) - begin), "little")
    values = int.from_bytes(data[begin:], "little") ^ ones
    return data[:begin] + values.to_bytes(len(data) - begin, "little")


def check_changes(fault, reference, seconds):
    """Runs rounds of changes during a run. Returns a count of endings by kind and status."""
    source = fault.path("source")
    path = max((os.path.join(source, name) for name in os.listdir(source) if name.endswith(".safetensors")),
               key=os.path.getsize)
    with open(path, "rb") as file:
        old = file.read()
    new = other_values(old)
    rewrite(path, new)
    fault.check(subprocess.run(fault.convert("new"), capture_output=True, text=True, check=False))
    other = fault.tree("new")
    same = {key for key in reference if reference[key] == other.get(key)}
    fault.expect(len(same) < len(reference), "the two versions of the source give one tree")
    endings = {}
    kinds = (rewrite, replace, edit, edit_quietly, append)
    modes = ("auto", "direct", "buffered", "mmap")
    for number in range(fault.arguments.rounds * 3):
        kind, mode = kinds[number % len(kinds)], modes[number // len(kinds) % len(modes)]
        rewrite(path, old)
        name = f"changed{number}"
        process = fault.start(fault.convert(name, "--io", mode))
        time.sleep(fault.random.uniform(0.0, 1.0) * seconds)
        kind(path, new)
        _, said = process.communicate(timeout=120)
        status = process.returncode
        when = f"{kind.__name__} during --io {mode}, round {number}"
        fault.expect(status in (0, 3, 4), f"{when}: status {status}\n{said}")
        if status == 0:
            tree = fault.tree(name)
            fault.expect(tree in (reference, other), f"{when}: a mixture of two versions was published")
            subprocess.run(["rm", "-rf", fault.path(name)], check=True)
        else:
            fault.expect(os.path.basename(path) in said, f"{when}: the message does not name the file\n{said}")
            fault.expect(not os.path.lexists(fault.path(name)), f"{when}: a refused run left an output")
            fault.run("clean", fault.path(name))
        endings[kind.__name__, status] = endings.get((kind.__name__, status), 0) + 1
    rewrite(path, old)
    return endings


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        reference, seconds = fault.reference()
        name = killed(fault, "out")
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
        fault.check(subprocess.run(fault.convert(name, "--resume"), capture_output=True, text=True, check=False), 3)
        fault.run("clean", fault.path(name))
        name = killed(fault, "linked")
        os.link(file, fault.path("second"))
        fault.check(subprocess.run(fault.convert(name, "--resume"), capture_output=True, text=True, check=False))
        fault.expect_same(name, reference, "after a source file got a second name")
        os.remove(fault.path("second"))
        print("a changed source is refused by name, and the staging directory survives it")
        endings = check_changes(fault, reference, seconds)
        with open(file, "rb") as stored:
            check_nothing_noted(fault, file, other_values(stored.read()))
        for (kind, status), count in sorted(endings.items()):
            print(f"{kind} during a run: {count} ended with {status}")
        fault.expect(sum(count for (_, status), count in endings.items() if status == 3) > 0,
                     "no change fell into a run")
        return 0


if __name__ == "__main__":
    sys.exit(main())
