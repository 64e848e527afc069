#!/usr/bin/env python3
"""Changes the source between a kill and the resume, and during a run. hfshard must refuse that and name the file.

Between a kill and the resume, the staging directory stays. Restoring the time doesn't help, since an edit could hide
behind it. A second name for a file isn't a change, so resuming gives the uninterrupted tree. A run that is killed
before its journal exists has written no data. The next run empties its staging directory and starts with the new
source. During a run, the changes begin before random system calls, with each way of reading. They are a rewrite of
equal size, another file under the name, an edit in place, the same with its time restored, and appended bytes. A run
that ends with status 0 has published the old tree or the new one, never a mixture. Every other run ends with 3 or 4,
and publishes nothing.
"""

import os
import shutil
import signal
import subprocess
import sys

import harness


# About 24 MB: each round writes the source anew.
CONFIG = {**harness.CONFIG, "num_hidden_layers": 2, "vocab_size": 8192}
PIECES = 16


def run(fault, name, *options):
    return subprocess.run(fault.convert(name, *options), capture_output=True, text=True, check=False)


def journal_bytes(fault, name):
    """Returns the size of the journals in a staging directory, or None without journals."""
    staging = fault.staging(name)
    journals = [entry for entry in os.listdir(staging) if entry.startswith("journal.")] if os.path.isdir(staging) else []
    return sum(os.path.getsize(os.path.join(staging, entry)) for entry in journals) if journals else None


def kill_before(fault, name, call):
    """Kills a conversion before a system call that can change something."""
    done = run(fault, name, "--die-at", str(call))
    fault.expect(done.returncode == -signal.SIGKILL, f"killed before call {call}: status {done.returncode}\n{done.stderr}")


def killed(fault, name, calls):
    """Kills a conversion to `name` before random system calls, until one leaves a journal with a record and no output."""
    for _ in range(100):
        kill_before(fault, name, fault.random.randint(1, calls))
        if journal_bytes(fault, name) and not os.path.lexists(fault.path(name)):
            return
        fault.run("clean", fault.path(name))
        shutil.rmtree(fault.path(name), ignore_errors=True)
    fault.expect(False, "no kill left a journal")


def rewrite(path, data):
    with open(path, "wb") as file:
        file.write(data)


def replace(path, data):
    rewrite(path + ".new", data)
    os.rename(path + ".new", path)


def edit(path, data):
    """Edits in place, from front to end. Yields after each piece."""
    step = len(data) // PIECES + 1
    with open(path, "r+b", buffering=0) as file:
        for at in range(0, len(data), step):
            file.seek(at)
            file.write(data[at:at + step])
            yield


def edit_quietly(path, data):
    before = os.stat(path)
    yield from edit(path, data)
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


def change(fault, process, kind, path, data):
    """Changes a file while a process is stopped. The second half of an edit races with the process. Returns what it
    said."""
    for number, _ in enumerate(kind(path, data) or ()):
        if number == PIECES // 2:
            process.send_signal(signal.SIGCONT)
    return fault.go_on(process)


def check_changes(fault, reference, other, path, old, new, calls):
    """Runs rounds of changes during a run. Returns a count of endings by kind and status."""
    endings = {}
    kinds = (rewrite, replace, edit, edit_quietly, append)
    modes = ("auto", "direct", "buffered", "mmap")
    for number in range(fault.arguments.rounds * 3):
        kind, mode = kinds[number % len(kinds)], modes[number // len(kinds) % len(modes)]
        rewrite(path, old)
        name, call = f"changed{number}", fault.random.randint(1, calls)
        process, _ = fault.start_until(fault.convert(name, "--io", mode), call)
        said = change(fault, process, kind, path, new)
        status = process.returncode
        when = f"{kind.__name__} before call {call} of --io {mode}, round {number}"
        fault.expect(status in (0, 3, 4), f"{when}: status {status}\n{said}")
        if status == 0:
            fault.expect(fault.tree(name) in (reference, other), f"{when}: a mixture of two versions was published")
            shutil.rmtree(fault.path(name))
        else:
            fault.expect(os.path.basename(path) in said, f"{when}: the message does not name the file\n{said}")
            fault.expect(not os.path.lexists(fault.path(name)), f"{when}: a refused run left an output")
            fault.run("clean", fault.path(name))
        endings[kind.__name__, status] = endings.get((kind.__name__, status), 0) + 1
    rewrite(path, old)
    return endings


def check_before_the_journal(fault, other, path, old, new, calls):
    """Kills before each system call up to the first journal record, and resumes with a changed source.

    Without a journal, nothing of the old source is on the disk, and the run starts with the new one. From the journal
    on, hfshard refuses the new source."""
    anew = refused = 0
    for call in range(1, calls + 1):
        name = f"early{call}"
        rewrite(path, old)
        kill_before(fault, name, call)
        journal = journal_bytes(fault, name)
        rewrite(path, new)
        done = run(fault, name, "--resume")
        when = f"killed before call {call}, resumed with another source"
        if journal is None:
            fault.check(done)
            fault.expect_same(name, other, when)
            shutil.rmtree(fault.path(name))
            anew += 1
        else:
            fault.check(done, 3)
            fault.expect(os.path.basename(path) in done.stderr, f"{when}: the message does not name the file\n{done.stderr}")
            fault.run("clean", fault.path(name))
            refused += 1
        if journal:
            break
    rewrite(path, old)
    fault.expect(anew > 0 and refused > 1, f"{anew} runs started anew, {refused} were refused")
    print(f"{anew} runs killed before their journal started with the new source, {refused} killed later refused it")


def check_between(fault, reference, path, calls):
    """Changes only the time of a source file, restores it, and then gives the file a second name."""
    name = "out"
    killed(fault, name, calls)
    before, data = os.stat(path), os.path.basename(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
    refused = fault.check(run(fault, name, "--resume"), 3)
    fault.expect(data in refused.stderr, f"the message does not name {data}:\n{refused.stderr}")
    fault.expect(os.path.isdir(fault.staging(name)), "a refused resume removed the staging directory")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    fault.check(run(fault, name, "--resume"), 3)
    fault.run("clean", fault.path(name))
    killed(fault, "linked", calls)
    os.link(path, fault.path("second"))
    fault.check(run(fault, "linked", "--resume"))
    fault.expect_same("linked", reference, "after a source file got a second name")
    os.remove(fault.path("second"))
    print("a changed source is refused by name, and the staging directory survives it")


def main():
    with harness.Fault(__doc__.splitlines()[0], CONFIG) as fault:
        reference, calls = fault.reference(), fault.count_calls()
        source = fault.path("source")
        files = sorted(os.path.join(source, name) for name in os.listdir(source) if name.endswith(".safetensors"))
        check_between(fault, reference, files[0], calls)
        path = max(files, key=os.path.getsize)
        with open(path, "rb") as file:
            old = file.read()
        new = other_values(old)
        rewrite(path, new)
        fault.check(run(fault, "new"))
        other = fault.tree("new")
        same = {key for key in reference if reference[key] == other.get(key)}
        fault.expect(len(same) < len(reference), "the two versions of the source give one tree")
        check_before_the_journal(fault, other, path, old, new, calls)
        endings = check_changes(fault, reference, other, path, old, new, calls)
        for (kind, status), count in sorted(endings.items()):
            print(f"{kind} during a run: {count} ended with {status}")
        fault.expect(sum(count for (_, status), count in endings.items() if status == 3) > 0,
                     "no change fell into a run")
        return 0


if __name__ == "__main__":
    sys.exit(main())
