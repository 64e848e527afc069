"""The log of a hub's requests, and the requests that clients must not send."""

import collections
import dataclasses
import threading
import time
import urllib.parse

SETTLE_SECONDS = 30  # only answers that a fault delays take longer

Violation = collections.namedtuple("Violation", "kind text")


@dataclasses.dataclass
class Entry:
    """One request and its answer. `bytes_sent` counts the body. `file` is org/name/path for a data URL."""

    listener: str
    method: str
    path: str
    file: str
    range: str
    status: int = 0
    bytes_sent: int = 0
    had_authorization: bool = False
    fault: str = ""
    connection: int = 0
    at_seconds: float = 0.0
    seconds: float = 0.0
    done: bool = False
    headers: dict = dataclasses.field(default_factory=dict)


class Log:
    def __init__(self):
        self._lock = threading.Lock()
        self._entries = []
        self._violations = []
        self._begin = time.monotonic()

    def begin(self, listener, request):
        # The query of a data URL is its signature.
        entry = Entry(listener, request.method, request.target if listener == "hub" else request.path, "", request.headers.get("range", ""),
                      had_authorization="authorization" in request.headers, connection=request.connection,
                      at_seconds=time.monotonic() - self._begin,
                      headers={name: "..." if name in ("authorization", "cookie") else value
                               for name, value in request.headers.items()})
        request.entry = entry
        with self._lock:
            self._entries.append(entry)
        return entry

    def violate(self, kind, text):
        with self._lock:
            self._violations.append(Violation(kind, text))

    def begun(self):
        """Returns all entries, also unanswered ones."""
        with self._lock:
            return list(self._entries)

    def entries(self, **wanted):
        """Returns entries whose members have these values. `path_has` is a part of the decoded path."""
        part = wanted.pop("path_has", "")
        found = self._settled()
        return [entry for entry in found
                if part in urllib.parse.unquote(entry.path) + "\n" + entry.file
                and all(getattr(entry, name) == value for name, value in wanted.items())]

    def _settled(self):
        """Returns all entries after pending answers were sent, since a client can see the last byte before we do."""
        until = time.monotonic() + SETTLE_SECONDS
        while True:
            with self._lock:
                found = list(self._entries)
            if all(entry.done for entry in found) or time.monotonic() > until:
                return found
            time.sleep(0.001)

    def violations(self, *kinds):
        with self._lock:
            return [violation for violation in self._violations if not kinds or violation.kind in kinds]

    def clear(self):
        with self._lock:
            self._entries.clear()
            self._violations.clear()
            self._begin = time.monotonic()
