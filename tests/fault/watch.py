"""Runs commands under limits on memory, and returns what they used and how they ended. The memory tests and benches
share it."""

import dataclasses
import json
import os
import resource
import subprocess
import tempfile
import time

MIB = 1 << 20
GIB = 1 << 30
SAMPLE_SECONDS = 0.02
V1_LIMIT = "memory.limit_in_bytes"
V2_LIMIT = "memory.max"


def figures(path):
    """Returns `Name: 12 kB` and `name 12` lines of a file as name -> bytes (or a count). Returns {} once the process
    is gone."""
    found = {}
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            for line in file:
                words = line.replace(":", " ").split()
                if len(words) > 1 and words[1].isdigit():
                    found[words[0]] = int(words[1]) * (1024 if words[-1] == "kB" else 1)
    except OSError:
        pass
    return found


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
        return figures(os.path.join(self.path, "memory.stat")).get("rss" if self._version_1 else "anon", 0)

    def peak_bytes(self):
        name = "memory.max_usage_in_bytes" if self._version_1 else "memory.peak"
        try:
            with open(os.path.join(self.path, name), encoding="ascii") as file:
                return int(file.read())
        except OSError:  # memory.peak is newer than cgroup v2
            return 0

    def oom_kills(self):
        name = "memory.oom_control" if self._version_1 else "memory.events"
        return figures(os.path.join(self.path, name)).get("oom_kill", 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(50):  # a process that has just ended may still count
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


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
        path = os.path.join(parent, f"hfshard-test-{os.getpid()}-{time.monotonic_ns()}")
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
        os.rmdir(path)
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
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            now = figures(f"/proc/{process.pid}/smaps_rollup")
            anonymous = max(anonymous, now.get("Anonymous", 0))
            mapped = max(mapped, now.get("Rss", 0) - now.get("Anonymous", 0))
            group_anonymous = max(group_anonymous, group.anonymous_bytes() if group else 0)
            if time.monotonic() - started > timeout:
                process.kill()
            time.sleep(SAMPLE_SECONDS)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Outcome(command, process.returncode, *texts, seconds, usage.ru_maxrss * 1024, anonymous, mapped,
                   group.peak_bytes() if group else 0, group_anonymous, group.oom_kills() if group else 0)


def json_of(done):
    """Returns the object that a command with --json printed. Ends the test if the command failed."""
    if done.status != 0:
        raise SystemExit(f"FAIL: {done}")
    return json.loads(done.out)
