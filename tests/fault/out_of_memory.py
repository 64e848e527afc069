#!/usr/bin/env python3
"""Runs conversions whose limits are below the claim of --max-memory. Memory, address space and threads run out midway.

Each run succeeds, or ends with status 3 or 4, one error and a hint. It never ends with a signal, terminate, or "bug
in hfshard". No output appears before it is complete. `--resume` without the limit gives the tree of an undisturbed
conversion. hfshard reports a limit from the start before it writes anything. One that falls midway can take effect
at any allocation. Limits too low for the dynamic loader aren't tried: the steps begin where `--version` works.
"""

import os
import resource
import shutil
import sys

import harness
import watch

NOBODY = 65534
# Above the least at which the program starts at all. A conversion needs about 240 MiB of data here.
STEPS_MIB = (0, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 80, 120, 160, 200, 320)
TOP_MIB = 400
EDGE_MIB = 5
MEMORY = ["--max-memory", "512MiB", "--jobs", "2"]


def least_mib(fault, limit):
    """Returns the least value of a limit, in quarters of a MiB, with which the program starts."""
    low, high = 0, 4096
    while high - low > 1:
        middle = (low + high) // 2
        done = watch.run(fault.command("--version"), {limit: middle * watch.MIB // 4})
        low, high = (low, middle) if done.status == 0 else (middle, high)
    return high / 4


def check_end(fault, done, when):
    """Returns the error that a run ended with, or "" if it succeeded. A failed run must report it properly."""
    fault.expect(done.status in (0, 3, 4), f"{when}: {done}")
    if done.status == 0:
        return ""
    lines = done.err.splitlines()
    errors = [line for line in lines if line.startswith("hfshard: error [")]
    fault.expect(len(errors) == 1, f"{when}: not one error: {done}")
    fault.expect(any(line.startswith("  hint") for line in lines), f"{when}: the error has no hint: {done}")
    return errors[0]


def finish(fault, reference, name, done, when):
    """Checks how a conversion ended, and does the rest of it without limits. Returns the error, or "" if it
    succeeded."""
    error = check_end(fault, done, when)
    if error:
        fault.expect(not os.path.lexists(fault.path(name)), f"{when}: a failed conversion left an output")
        rest = watch.run(fault.convert(name, "--resume", *MEMORY))
        fault.expect(rest.status == 0, f"{when}: cannot be resumed: {rest}")
    fault.expect_same(name, reference, when)
    shutil.rmtree(fault.path(name))
    return error


def squeeze(fault, reference, name, when, **options):
    """Runs one conversion under limits, and the commands after it. Returns the error, or "" if it succeeded."""
    return finish(fault, reference, name, watch.run(fault.convert(name, *MEMORY), **options), when)


def report(what, said):
    """Prints how many runs ended in each way."""
    print(f"{what}: {len(said)} runs, {said.count('')} succeeded")
    for line in sorted(set(said) - {""}):
        print(f"  {said.count(line)} x {line}")
    sys.stdout.flush()


def memory(fault, reference, limit, what):
    """Runs the steps of one limit for convert, and for the commands that read its output."""
    least = least_mib(fault, limit)
    steps = [least + step for step in STEPS_MIB]
    steps += [least + fault.random.uniform(0, TOP_MIB) for _ in range(fault.arguments.rounds)]
    steps += [least + fault.random.uniform(0, 16) for _ in range(fault.arguments.rounds)]
    said = {"convert": []}
    others = {"plan": ["plan", fault.path("source"), *MEMORY],
              "verify": ["verify", fault.path("reference"), fault.path("source"), *MEMORY, "--quiet"],
              "inspect": ["inspect", fault.path("reference")],
              "check": ["mappings", "check", fault.path("source")]}
    for number, mib in enumerate(sorted(steps)):
        bound = {limit: int(mib * watch.MIB)}
        when = f"{what} of {mib:.2f} MiB"
        said["convert"].append(squeeze(fault, reference, f"{what}{number}", when, limits=bound))
        for command, words in others.items():
            done = watch.run(fault.command(*words), bound)
            said.setdefault(command, []).append(check_end(fault, done, f"{command}, {when}"))
    for command, lines in said.items():
        report(f"{command}, {what} from {least:.2f} MiB on", lines)
    fault.expect("" in said["convert"], f"no conversion fits into any of these: {what}")
    fault.expect(any(said["convert"]), f"every conversion fits into each of these: {what}")


def edge(fault, reference, limit, what):
    """Runs the least limits that hfshard accepts before it writes. Then memory is refused to the start of its threads
    and to the first pieces of work."""
    refused, accepted = 0, 4096  # in quarters of a MiB
    said = []
    while accepted - refused > 1:
        middle = (refused + accepted) // 2
        name = f"{what}-edge{middle}"
        error = squeeze(fault, reference, name, f"{what} of {middle / 4} MiB", limits={limit: middle * watch.MIB // 4})
        refused, accepted = (middle, accepted) if "the system refuses the" in error else (refused, middle)
    for step in range(1, 2 * EDGE_MIB + 1):
        bound = accepted * watch.MIB // 4 + step * watch.MIB // 2
        said.append(squeeze(fault, reference, f"{what}-above{step}", f"{what} of {bound / watch.MIB} MiB", limits={limit: bound}))
    report(f"convert, {what} from {accepted / 4} MiB on, in steps of 0.5 MiB", said)


def midway(fault, reference):
    """Lowers the limit below the memory in use while a conversion writes. The system then refuses every request."""
    said = []
    calls = fault.count_calls(*MEMORY)
    for number in range(3 * fault.arguments.rounds):
        name, call = f"midway{number}", fault.random.randint(1, calls)
        process, stopped = fault.start_until(fault.convert(name, *MEMORY), call)
        fault.expect(stopped, f"a conversion ended before call {call}")
        limit = resource.RLIMIT_AS if number % 2 else resource.RLIMIT_DATA
        resource.prlimit(process.pid, limit, (watch.MIB, watch.MIB))
        err = fault.go_on(process)
        done = watch.Outcome(process.args, process.returncode, "", err, 0, 0)
        said.append(finish(fault, reference, name, done, f"midway, at call {call}"))
    report("limits that fall midway", said)
    fault.expect(any(said), "no conversion noticed that its limit fell")


def threads(fault, reference):
    """Limits a user's threads. The superuser can have any number, so another user runs the program."""
    user = NOBODY if os.geteuid() == 0 else None
    if user is not None:
        os.chmod(fault.folder, 0o777)
        # Its build directory may be closed to others.
        fault.arguments.hfshard = shutil.copy2(fault.arguments.hfshard, fault.path("program"))
        done = watch.run(fault.command("--version"), user=user)
        if done.status != 0:
            print(f"NOT DONE: threads that cannot be made, as another user cannot run the program: {done}")
            return
    said = []
    for most in range(1, 9):
        options = {"limits": {resource.RLIMIT_NPROC: most}, "user": user}
        name = f"threads{most}"
        said.append(squeeze(fault, reference, name, f"{most} threads", **options))
    report("at most 1 to 8 threads", said)
    fault.expect(any(said), "no limit on threads made a difference")


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        reference = fault.reference()
        memory(fault, reference, resource.RLIMIT_DATA, "data")
        memory(fault, reference, resource.RLIMIT_AS, "address space")
        edge(fault, reference, resource.RLIMIT_DATA, "data")
        edge(fault, reference, resource.RLIMIT_AS, "address space")
        threads(fault, reference)
        midway(fault, reference)
        return 0


if __name__ == "__main__":
    sys.exit(main())
