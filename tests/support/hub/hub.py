"""The listeners of a hub: its own, the data hosts' that it redirects to, and a stranger, which must get nothing."""

import hashlib
import hmac
import secrets
import threading
import time
import urllib.parse

from hub import answers, api, control
from hub.content import LARGE_BYTES, Repo
from hub.faults import Script
from hub.log import Log
from hub.wire import Gone, Listener, Response

LOOPBACK = "127.0.0.1"
URL_SECONDS = 3600
SOON_SECONDS = 120


class Hub:
    """A running hub. Close it, or use it as a context.

    `endpoint` is the value for HF_ENDPOINT. The data listener has another host name and port. A test can set these
    members at any time: `page_size` (entries of a listing), `quota` (bucket -> requests in a window, after which
    429), `tokens` (known ones; others are invalid), `bare_401` (answers for unknown repositories have no
    X-Error-Code), `link_endpoint` (the origin that next-page links name), `url_seconds`, `most_unranged_bytes`
    (above which the data host answers 400), `resolver_calls_for_each_url` (more are a violation). `address`: of both
    listeners. `ca_file` is the authority of a hub with TLS.
    """

    def __init__(self, tls=None, prefix="", url_seconds=URL_SECONDS, address=LOOPBACK):
        self.repos = {}
        self.renamed = {}
        self.tokens = {}
        self.page_size = 3
        self.quota = {}
        self.bare_401 = False
        self.link_endpoint = None
        self.most_unranged_bytes = None
        self.resolver_calls_for_each_url = 1
        self.url_seconds = url_seconds
        self.prefix = prefix
        self.faults = Script()
        self.requests = Log()
        self.spent = {}
        self.asked_by_name = {}
        self._lock = threading.Lock()
        self._calls = {}
        self._refused = {}
        self._expiries = {}
        self._generations = {}
        self._stored = {}
        self._secret = secrets.token_bytes(16)
        self._clock = 0.0
        self._count = 0
        self.ca_file = tls.ca_file if tls else None
        context = tls.context if tls else None
        self.hub = Listener("hub", address, self._serve_hub, context, address)
        self.data = Listener("data", "localhost" if address == LOOPBACK else address, self._serve_data, context, address)
        self.stranger = Listener("stranger", "127.0.0.2", self._serve_stranger, None, "127.0.0.2")
        self.listeners = {"hub": self.hub, "data": self.data, "stranger": self.stranger}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for listener in self.listeners.values():
            listener.close()

    @property
    def endpoint(self):
        return self.hub.origin + self.prefix

    def add(self, repo_id, branches=None, large_bytes=LARGE_BYTES, kinds=None):
        """Adds a repository. `branches`: name -> directory or dict of files (Repo.commit), in the given order."""
        repo = Repo(repo_id, large_bytes, kinds)
        for branch, files in (branches or {}).items():
            repo.commit(files, branch)
        self.repos[repo_id] = repo
        return repo

    def rename(self, old, new):
        self.renamed[old] = new

    def script(self, listener, method, pattern, faults, repeat=False):
        """Sets faults for the next requests that match (faults.py). `pattern` is for the path or for org/name/path."""
        return self.faults.add(listener, method, pattern, faults, repeat)

    def log(self, **wanted):
        return self.requests.entries(**wanted)

    def violations(self, *kinds):
        return self.requests.violations(*kinds)

    def reset(self):
        """Forgets all requests and pending faults. Repositories stay."""
        self.faults.clear()
        self.requests.clear()
        with self._lock:
            self._calls.clear()
            self._refused.clear()
            self._expiries.clear()
            self.spent.clear()
            self.asked_by_name.clear()

    # The clock for the expiry of URLs.

    def now(self):
        return time.time() + self._clock

    def advance(self, seconds):
        self._clock += seconds

    # Signed URLs.

    def sign(self, file):
        """Returns a URL of the data listener, signed like CloudFront's (LFS files) or object stores' (Xet files)."""
        expires = int(self.now()) + self.url_seconds
        bucket = "xet-bridge-us" if file.xet_hash else "repos"
        path = f"/{bucket}/{hashlib.sha256(file.name.encode()).hexdigest()[:24]}/{file.etag}"
        with self._lock:
            self._stored[path] = file
            generation = self._generations.get(file.name, 0)
            self._expiries[file.name] = expires
        name = urllib.parse.quote(file.path.rsplit("/", 1)[-1])
        query = {"response-content-disposition": f"inline; filename*=UTF-8''{name}; filename=\"{name}\";"}
        if file.xet_hash:
            date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.now()))
            query.update({"X-Amz-Date": date, "X-Amz-Expires": str(self.url_seconds)})
        query.update({"Expires": str(expires), "Key-Pair-Id": f"K{generation}"})
        query["Signature"] = self._signature(path, expires, f"K{generation}")
        return f"{self.data.origin}{path}?{urllib.parse.urlencode(query, quote_via=urllib.parse.quote)}"

    def _signature(self, path, expires, generation):
        return hmac.new(self._secret, f"{path} {expires} {generation}".encode(), "sha256").hexdigest()

    def refusal(self, request, file):
        """Returns why a data URL isn't served, as a word for the log. Empty if it is."""
        query = dict(urllib.parse.parse_qsl(request.query))
        expires, generation = query.get("Expires", "0"), query.get("Key-Pair-Id", "")
        if not hmac.compare_digest(query.get("Signature", ""), self._signature(request.path, expires, generation)):
            return "SignatureDoesNotMatch"
        with self._lock:
            current = self._generations.get(file.name, 0)
        if float(expires) < self.now() or generation != f"K{current}":
            return "AccessDenied"
        return ""

    def expire(self, file):
        """Refuses every URL of the file from now on. Later signed ones work."""
        with self._lock:
            self._generations[file.name] = self._generations.get(file.name, 0) + 1

    def stored(self, path):
        with self._lock:
            return self._stored.get(path)

    def count_call(self, file):
        """Notes a resolver call. The first is due, and one for each URL that was or will soon be refused. Others are
        a violation."""
        with self._lock:
            if self._expiries.get(file.name, self.now()) < self.now() + SOON_SECONDS:
                self._refused.setdefault(file.name, set()).add(self._expiries.get(file.name))
            due = self.resolver_calls_for_each_url * max(1, len(self._refused.get(file.name, ())))
            self._calls[file.name] = calls = self._calls.get(file.name, 0) + 1
        if calls > due:
            self.requests.violate("resolver_calls", f"{file.name} was resolved {calls} times where {due} suffice")

    def note_refused(self, file, target):
        """Notes that a data URL was refused. It must be resolved again, once."""
        with self._lock:
            self._refused.setdefault(file.name, {None}).add(target)

    # Requests.

    def _begin(self, listener, request, file):
        entry = self.requests.begin(listener.name, request)
        entry.file = file.name if file else ""
        fault = self.faults.take(listener.name, request.method, request.target, entry.file)
        entry.fault = "" if fault.text == "ok" else fault.text
        if "refuse" in fault:
            listener.refuse(fault.number("refuse"))
            raise Gone
        if "hang" in fault:
            listener.stopping.wait(fault.number("hang"))
        if "empty" in fault:
            raise Gone
        if request.headers.get("range") and request.headers.get("accept-encoding", "identity") != "identity":
            self.requests.violate("accept_encoding", f"{entry.path}: {request.headers['accept-encoding']}")
        return entry, fault

    def _common(self, response):
        with self._lock:
            self._count += 1
            number = self._count
        response.headers.setdefault("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(self.now())))
        response.headers.setdefault("X-Request-Id", f"request-{number:06d}")

    def _serve_hub(self, request, connection):
        path = request.path.removeprefix(self.prefix) if request.path.startswith(self.prefix + "/") else request.path
        if path.startswith("/_control/"):
            connection.socket.sendall(control.answer(self, request, path))
            return
        entry, fault = self._begin(self.hub, request, None)
        response = answers.replaced(self, fault, request) or api.answer(self, request, path, entry, fault)
        self._common(response)
        answers.limit(self, response, path, fault)
        connection.answer(request, response, fault, entry)

    def _serve_data(self, request, connection):
        file = self.stored(request.path)
        entry, fault = self._begin(self.data, request, file)
        for name in ("authorization", "cookie"):
            if name in request.headers:
                self.requests.violate(f"{name}_on_data", f"{request.method} {entry.path}")
        if "expire" in fault and file:
            self.expire(file)
        response = answers.replaced(self, fault, request) or answers.data(self, request, file, fault)
        self._common(response)
        if response.status == 403 and file:
            self.note_refused(file, request.target)
        connection.answer(request, response, fault, entry)

    def _serve_stranger(self, request, connection):
        """Answers as a host that nobody should contact."""
        entry, fault = self._begin(self.stranger, request, None)
        for name in ("authorization", "cookie"):
            if name in request.headers:
                self.requests.violate(f"{name}_on_stranger", f"{request.method} {entry.path}")
        connection.answer(request, answers.replaced(self, fault, request) or Response(200, {}, b"stranger"), fault, entry)
