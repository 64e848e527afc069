#!/usr/bin/env python3
"""Checks that threads and their memory follow the CPUs that affinity and a cgroup's quota leave the process.

It runs `plan --json` under `taskset`, and in a cgroup with a quota of one and a half CPUs. `convert` there must have as
many threads as `plan` states. If it can't make a cgroup, it prints that and does the rest. Without a second CPU, it is
skipped (77).
"""

import json
import os
import subprocess
import sys
import time

import harness
import watch

SKIP_STATUS = 77
PERIOD = 100000


def plan(fault, prepare=None):
    """Returns the output of plan --json, in a process that is prepared."""
    done = subprocess.run(fault.command("plan", fault.path("source"), "--mesh", "fsdp=4", "--json"), text=True,
                          capture_output=True, check=False, preexec_fn=prepare)
    fault.check(done)
    return json.loads(done.stdout)


def make_group(quota):
    """Makes a cgroup with a quota in units of PERIOD. Returns its path, or the reason why it isn't possible."""
    reason = "this process is in no cgroup"
    for parent in watch.group_parents("cpu"):
        path = os.path.join(parent, watch.group_name())
        try:
            os.mkdir(path)
        except OSError as error:
            reason = str(error)
            continue
        try:
            first = os.path.join(path, "cpu.cfs_quota_us")
            name, text = (first, str(quota)) if os.path.exists(first) else \
                (os.path.join(path, "cpu.max"), f"{quota} {PERIOD}")
            with open(name, "w", encoding="ascii") as file:
                file.write(text)
            return path, None
        except OSError as error:
            reason = str(error)
            watch.remove_group(path)
    return None, reason


def join(path):
    """Puts a process into the group."""
    def prepare():
        with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
    return prepare


def most_threads(fault, command):
    """Returns the most threads that a command was seen with."""
    process = fault.start(command)
    most = 0
    while process.poll() is None:
        try:
            most = max(most, len(os.listdir(f"/proc/{process.pid}/task")))
        except OSError:
            pass
        time.sleep(0.001)
    fault.expect(process.returncode == 0, process.communicate()[1])
    return most


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            print("SKIP: this process has one CPU")
            return SKIP_STATUS
        whole = plan(fault)
        fault.expect(whole["kernel_threads"] <= len(cpus), f"more threads than CPUs: {whole['kernel_threads']}")
        one = plan(fault, lambda: os.sched_setaffinity(0, cpus[:1]))
        fault.expect(one["kernel_threads"] == 1, f"taskset of one CPU: {one['kernel_threads']} kernel threads")
        fault.expect(one["threads"] == 3, f"with two for reads and writes: {one['threads']}")
        fault.expect(one["need_memory_bytes"] < whole["need_memory_bytes"] or whole["kernel_threads"] == 1,
                     "the memory that is needed does not follow the threads")
        pinned = ["taskset", "-c", str(cpus[0]), *fault.convert("pinned")]
        threads = most_threads(fault, pinned)
        fault.expect(threads <= one["threads"], f"convert had {threads} threads, plan says {one['threads']}")
        print(f"affinity: {whole['kernel_threads']} kernel threads, of one CPU 1; convert had {threads} threads")
        for quota, wanted in ((PERIOD // 2, 1), (PERIOD * 3 // 2, 2)):
            path, reason = make_group(quota)
            if path is None:
                print(f"NOT DONE: no cgroup with a CPU quota can be made here: {reason}")
                break
            try:
                found = plan(fault, join(path))["kernel_threads"]
            finally:
                watch.remove_group(path)
            fault.expect(found == min(wanted, whole["kernel_threads"]), f"a quota of {quota} us: {found} threads")
            print(f"cgroup with {quota / PERIOD} CPUs: {found} kernel threads")
        return 0


if __name__ == "__main__":
    sys.exit(main())
