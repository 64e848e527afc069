"""The helpers that Python tests share: waiting, clean environments, free ports, and peaks of memory.

A test asks about the product and never about the machine. It polls for a condition instead of sleeping, and asserts no
time and no rate. It starts programs without the settings of the machine. It never reads ru_maxrss alone.
"""

import os
import re
import select
import socket
import time

# Only a hang takes this long. It is less than the limits of ctest, so that the test itself can say what it waited for.
HANG_SECONDS = 240
SAMPLE_SECONDS = 0.02
MIB = 1 << 20

# Settings that change how a program reaches a hub, prints, or reads its options.
_MACHINE = re.compile(r"(?i:\w*_proxy)|(HF|HUGGING|HUGGING_FACE|HUGGINGFACE|TRANSFORMERS|SSL_CERT|GREP)_\w*|MAN[A-Z_]+|HFSHARD_MAPPINGS|"
                      r"(CURL|REQUESTS)_CA_BUNDLE|COLUMNS|LINES|BASH_ENV|ENV|POSIXLY_CORRECT|PAGER|NO_COLOR|CLICOLOR(_FORCE)?|FORCE_COLOR")


def wait_until(condition, what, seconds=HANG_SECONDS, pause=0.01):
    """Polls until `condition()` is true, and returns its value. Raises TimeoutError after minutes. `what` names the
    condition."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} s: {what}")
        time.sleep(pause)
    return value


def wait_for(process, condition, what, pause=0.01):
    """Polls until `condition()` is true, or the process has ended. Returns True if the process still runs."""
    wait_until(lambda: process.poll() is not None or condition(), what, pause=pause)
    return process.poll() is None


def stays(condition, seconds=0.5, pause=0.02):
    """Returns True if `condition()` stays true for a moment. A slow machine looks less often, which does no harm."""
    end = time.monotonic() + seconds
    while (value := condition()) and time.monotonic() < end:
        time.sleep(pause)
    return bool(value)


def clean(**more):
    """Returns an environment for a child process, without the settings of the machine. No request goes to a proxy."""
    kept = {name: value for name, value in os.environ.items() if not _MACHINE.fullmatch(name)}
    return {**kept, "no_proxy": "*", "NO_PROXY": "*", **more}


def clean_own():
    """Removes the settings of the machine from the environment of this process, which children inherit."""
    wanted = clean()
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)


def free_port(address="127.0.0.1"):
    """Returns a port that nobody uses at the moment. Another program can take it first: call `with_port` instead."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def with_port(start, attempts=3):
    """Returns the first true result of `start(port)`. Each attempt has a new port, since another program can take one."""
    for _ in range(attempts - 1):
        if result := start(free_port()):
            return result
    return start(free_port())


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


class Watch:
    """Follows a child to its end, and measures its peak memory.

    A child's ru_maxrss begins at the peak of its parent, so it says nothing below that. VmHWM is the child's own, but
    is gone when the child has ended. The peak is therefore ru_maxrss if it is above our own peak, and otherwise the
    last VmHWM. Use it as a context.
    """

    def __init__(self, process):
        self.process = process
        self.peak_bytes = 0
        self._inherited = figures("/proc/self/status").get("VmHWM", 0) + MIB  # the kernel counts in batches
        self._pause = SAMPLE_SECONDS / 64  # a short command has samples too
        try:
            self._ended = [os.pidfd_open(process.pid)]
        except OSError:  # some containers refuse it
            self._ended = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for descriptor in self._ended:
            os.close(descriptor)

    def has_ended(self):
        """Takes a sample and waits a moment. Returns True if the child has ended; it isn't reaped."""
        self.peak_bytes = max(self.peak_bytes, figures(f"/proc/{self.process.pid}/status").get("VmHWM", 0))
        select.select(self._ended, [], [], self._pause)
        self._pause = min(2 * self._pause, SAMPLE_SECONDS)
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def wait(self):
        """Waits for the end of the child. Returns its status (negative: the signal)."""
        while not self.has_ended():
            pass
        return self.reap()

    def reap(self):
        """Reaps a child that has ended. Returns its status, after which `peak_bytes` is final."""
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if usage.ru_maxrss * 1024 > self._inherited:
            self.peak_bytes = usage.ru_maxrss * 1024
        return self.process.returncode
