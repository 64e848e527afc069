"""Runs commands under limits on memory, and returns what they used and how they ended. The memory tests and benches
share it."""

import dataclasses
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))

import testing  # noqa: E402  (a module of tests/support)

MIB = 1 << 20
GIB = 1 << 30
V1_LIMIT = "memory.limit_in_bytes"
V2_LIMIT = "memory.max"


@dataclasses.dataclass
class Outcome:
    """One finished command."""
    command: list
    status: int  # negative: the signal
    out: str
    err: str
    seconds: float
    peak_bytes: int  # VmHWM: anonymous and mapped memory, shared or not
    anonymous_bytes: int = 0  # highest sample
    mapped_bytes: int = 0  # highest sample of mapped files: the program, libraries, headers
    group_bytes: int = 0  # highest usage of the cgroup, including page cache and kernel memory
    group_anonymous_bytes: int = 0  # highest sample
    oom_kills: int = 0

    def __str__(self):
        return f"{' '.join(self.command)}\nended with {self.status}\n{self.out}{self.err}"


class Group:
    """A separate cgroup with a bound on memory, below our own."""

    def __init__(self, path, limit_name, limit_bytes):
        self.path = path
        self._version_1 = limit_name == V1_LIMIT
        self.write(limit_name, limit_bytes)
        swap = ("memory.memsw.limit_in_bytes", limit_bytes) if self._version_1 else ("memory.swap.max", 0)
        if os.path.exists(os.path.join(path, swap[0])):
            self.write(*swap)

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def join(self):
        """Puts the calling process into it."""
        self.write("cgroup.procs", os.getpid())

    def anonymous_bytes(self):
        return testing.figures(os.path.join(self.path, "memory.stat")).get("rss" if self._version_1 else "anon", 0)

    def peak_bytes(self):
        name = "memory.max_usage_in_bytes" if self._version_1 else "memory.peak"
        try:
            with open(os.path.join(self.path, name), encoding="ascii") as file:
                return int(file.read())
        except OSError:  # memory.peak is newer than cgroup v2
            return 0

    def oom_kills(self):
        name = "memory.oom_control" if self._version_1 else "memory.events"
        return testing.figures(os.path.join(self.path, name)).get("oom_kill", 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        remove_group(self.path)


def remove_group(path):
    """Removes a cgroup. A process that has just ended may still count, so this tries again for a while."""
    def is_gone():
        try:
            os.rmdir(path)
        except FileNotFoundError:
            pass
        except OSError:
            return False
        return True

    testing.wait_until(is_gone, f"{path} has no processes")


def group_name():
    """Returns a name for a cgroup that no other run has, even with the same process number."""
    return f"hfshard-test-{os.getpid()}-{time.monotonic_ns()}"


def group_parents(controller):
    """Returns directories below which a cgroup with a controller can be made."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    for _, controllers, own in lines:
        if controller in controllers.split(","):
            return [os.path.join("/sys/fs/cgroup", controller, own.lstrip("/"))]
    own = next((own for number, _, own in lines if number == "0"), "/")
    path = os.path.normpath(os.path.join("/sys/fs/cgroup", own.lstrip("/")))
    # A group with processes can't give controllers to those below it, but the one above it can.
    return [path] if own == "/" else [path, os.path.dirname(path)]


def make_group(limit_bytes):
    """Returns a Group, or the reason why it isn't possible."""
    reason = "this process is in no cgroup"
    for parent in group_parents("memory"):
        path = os.path.join(parent, group_name())
        try:
            os.mkdir(path)
        except OSError as error:
            reason = str(error)
            continue
        try:
            for name in (V1_LIMIT, V2_LIMIT):
                if os.path.exists(os.path.join(path, name)):
                    return Group(path, name, limit_bytes)
            reason = f"{parent} gives no memory controller to groups below it"
        except OSError as error:
            reason = str(error)
        remove_group(path)
    return reason


def run(command, limits=None, group=None, user=None, timeout=300):
    """Runs a command to its end, sampled. `limits`: RLIMIT_* -> bound. `group`: a Group. `user`: a user's number."""
    def prepare():
        if group:
            group.join()
        if user is not None:
            os.setgid(user)
            os.setuid(user)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for name, bound in (limits or {}).items():
            resource.setrlimit(name, (bound, bound))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        # preexec_fn is safe, since these tests have no threads.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=prepare)
        anonymous = mapped = group_anonymous = 0
        with testing.Watch(process) as watched:
            while not watched.has_ended():
                now = testing.figures(f"/proc/{process.pid}/smaps_rollup")
                anonymous = max(anonymous, now.get("Anonymous", 0))
                mapped = max(mapped, now.get("Rss", 0) - now.get("Anonymous", 0))
                group_anonymous = max(group_anonymous, group.anonymous_bytes() if group else 0)
                if time.monotonic() - started > timeout:
                    process.kill()
            watched.reap()
        seconds = time.monotonic() - started
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Outcome(command, process.returncode, *texts, seconds, watched.peak_bytes, anonymous, mapped,
                   group.peak_bytes() if group else 0, group_anonymous, group.oom_kills() if group else 0)


def json_of(done):
    """Returns the object that a command with --json printed. Ends the test if the command failed."""
    if done.status != 0:
        raise SystemExit(f"FAIL: {done}")
    return json.loads(done.out)
