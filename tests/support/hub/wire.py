"""Serves HTTP/1.1 on a loopback socket: a thread for each connection, bodies by sendfile, and faults."""

import contextlib
import gzip
import os
import socket
import ssl
import struct
import threading
import time

HEAD_BYTES = 1 << 16
SEND_BYTES = 1 << 20
SLOW_STEPS_PER_SECOND = 20
REASONS = {200: "OK", 206: "Partial Content", 302: "Found", 304: "Not Modified", 307: "Temporary Redirect",
           308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
           416: "Range Not Satisfiable", 429: "Too Many Requests", 503: "Service Unavailable"}


class Gone(Exception):
    """The connection must not be used any more."""


class Request:
    """A request. `target` is as sent, and `path` is that without the query. Names of headers are in lower case."""

    def __init__(self, method, target, headers, body, connection):
        self.method, self.target, self.headers, self.body, self.connection = method, target, headers, body, connection
        self.path, _, self.query = target.partition("?")
        self.entry = None  # of the log

    def range(self, size):
        """Returns (begin, end) of the first requested range. Without a range it is (0, size), and beyond the end
        None."""
        text = self.headers.get("range", "")
        if not text.startswith("bytes="):
            return 0, size
        first, _, last = text.removeprefix("bytes=").split(",")[0].strip().partition("-")
        if not first:
            return (max(0, size - int(last)), size) if size and int(last) else None
        begin = int(first)
        end = min(int(last) + 1, size) if last else size
        return (begin, end) if begin < size and begin < end else None


class Response:
    """A response. `content` is bytes, or (Content, begin, end)."""

    def __init__(self, status=200, headers=None, content=b"", kind=None):
        self.status = status
        self.headers = dict(headers or {})
        self.content = content
        if kind:
            self.headers["Content-Type"] = kind

    @property
    def size(self):
        return len(self.content) if isinstance(self.content, bytes) else self.content[2] - self.content[1]

    def body(self):
        if isinstance(self.content, bytes):
            return self.content
        content, begin, end = self.content
        return content.read(begin, end)

    def set(self, name, value):
        """Replaces a header in any case. None removes it."""
        for present in [known for known in self.headers if known.lower() == name.lower()]:
            del self.headers[present]
        if value is not None:
            self.headers[name] = value


class Sender:
    """Sends one body in pieces, with the pauses and the end of the fault. Counts the sent bytes."""

    def __init__(self, connection, fault, entry):
        self.socket, self.stopping = connection.socket, connection.stopping
        self.fault, self.entry = fault, entry
        self.begin = time.monotonic()

    def short(self, size):
        """Bytes that are neither announced nor sent."""
        return min(int(self.fault.number("short", 0)), size)

    def send(self, response):
        size = response.size - self.short(response.size)
        ends = {name: min(int(self.fault.number(name)), size) for name in ("stall", "reset", "cut") if name in self.fault}
        held = int(self.fault.number("hold", -1)) - first_byte_of(response)
        if 0 <= held < size:
            ends["hold"] = held
        at = 0
        for stop in sorted({*ends.values(), size}):
            if stop > at:
                self.piece(response, at, stop)
            at = stop
            for pause in ("stall", "hold"):
                if at == ends.get(pause):
                    self.stopping.wait(self.fault.number(pause, at=1))
            if at == ends.get("reset"):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raise Gone
            if at == ends.get("cut"):
                raise Gone

    def piece(self, response, begin, end):
        if "slow" in self.fault:
            step = max(1, int(self.fault.number("slow") / SLOW_STEPS_PER_SECOND))
        else:
            step = end - begin
        flip = int(self.fault.number("flip")) if "flip" in self.fault else None
        for at in range(begin, end, step):
            until = min(at + step, end)
            if flip is not None and at <= flip % max(1, response.size) < until:
                data = bytearray(part_of(response, at, until))
                data[flip % response.size - at] ^= 0x40
                self.all(bytes(data))
            elif isinstance(response.content, bytes):
                self.all(response.content[at:until])
            else:
                content, first, _ = response.content
                self.content(content, first + at, first + until)
            if "slow" in self.fault:
                self.stopping.wait(1 / SLOW_STEPS_PER_SECOND)

    def all(self, data):
        self.socket.sendall(data)
        self.entry.bytes_sent += len(data)

    def content(self, content, begin, end):
        if content.path is None or isinstance(self.socket, ssl.SSLSocket):
            for at in range(begin, end, SEND_BYTES):
                self.all(content.read(at, min(at + SEND_BYTES, end)))
            return
        with open(content.path, "rb") as file:
            while begin < end:
                sent = os.sendfile(self.socket.fileno(), file.fileno(), begin, end - begin)
                if sent == 0:
                    raise Gone  # the file has shrunk
                begin += sent
                self.entry.bytes_sent += sent


def first_byte_of(response):
    """Returns the offset of the body in its file."""
    return 0 if isinstance(response.content, bytes) else response.content[1]


def part_of(response, begin, end):
    if isinstance(response.content, bytes):
        return response.content[begin:end]
    content, first, _ = response.content
    return content.read(first + begin, first + end)


class Connection:
    def __init__(self, listener, connected, number):
        self.listener, self.socket, self.number = listener, connected, number
        self.stopping = listener.stopping
        self.buffer = b""

    def run(self):
        with contextlib.suppress(Gone, OSError, ValueError):
            if self.listener.tls is not None:
                self.socket = self.listener.tls.wrap_socket(self.socket, server_side=True)
            while not self.stopping.is_set():
                request = self.read()
                try:
                    self.listener.serve(request, self)
                finally:
                    if request.entry is not None:
                        request.entry.done = True
                if request.headers.get("connection", "").lower() == "close":
                    break
        self.close()

    def close(self):
        with contextlib.suppress(OSError):
            if not self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER):
                self.socket.shutdown(socket.SHUT_RDWR)  # otherwise close alone sends a reset
        self.socket.close()

    def read(self):
        while b"\r\n\r\n" not in self.buffer:
            self.more()
            if len(self.buffer) > HEAD_BYTES:
                raise Gone
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        size = int(headers.get("content-length", 0))
        if headers.get("expect", "").lower() == "100-continue":
            self.socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(self.buffer) < size:
            self.more()
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return Request(method, target, headers, body, self.number)

    def more(self):
        got = self.socket.recv(HEAD_BYTES)
        if not got:
            raise Gone
        self.buffer += got

    def answer(self, request, response, fault, entry):
        """Sends a response as the fault allows. The entry of the log records the sent bytes."""
        if "gzip" in fault:
            response.content = gzip.compress(response.body())
            response.set("Content-Encoding", "gzip")
        for text in fault.texts("header"):
            response.set(*text.partition("=")[::2])
        for name in fault.texts("noheader"):
            response.set(name, None)
        sender = Sender(self, fault, entry)
        if not any(name.lower() in ("content-length", "transfer-encoding") for name in response.headers):
            response.headers["Content-Length"] = str(response.size - sender.short(response.size))
        lines = [f"HTTP/1.1 {response.status} {REASONS.get(response.status, 'Status')}"]
        lines += [f"{name}: {value}" for name, values in response.headers.items()
                  for value in (values if isinstance(values, list) else [values])]
        entry.status = response.status
        begin = time.monotonic()
        try:
            self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace"))
            if request.method != "HEAD":
                sender.send(response)
        finally:
            entry.seconds = time.monotonic() - begin


class Listener:
    """Accepts on one host name and port. `handle(request, connection)` answers with `connection.answer`."""

    def __init__(self, name, host, handle, tls=None, address="127.0.0.1"):
        self.name, self.host, self.address, self.handle, self.tls = name, host, address, handle, tls
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._connections = set()
        self._count = 0
        self._socket = None
        self._holder = self._bound(0)
        self.port = self._holder.getsockname()[1]
        self.behind = None  # the port of a link in front (link.py), for clients
        self._listen()

    @property
    def origin(self):
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.behind or self.port}"

    @property
    def connections(self):
        """Returns the number of connections."""
        return self._count

    def serve(self, request, connection):
        self.handle(request, connection)

    def refuse(self, seconds):
        """Closes the listener for this long, and cuts off all connections. The port stays ours."""
        self._stop_listening()
        self._cut_off()

        def listen_again():
            if not self.stopping.wait(seconds):
                self._listen()

        threading.Thread(target=listen_again, daemon=True).start()

    def close(self):
        self.stopping.set()
        self._stop_listening()
        self._cut_off()
        self._holder.close()

    def _bound(self, port):
        """Returns a socket that is bound and doesn't listen. One holds the port while no socket listens there."""
        bound = socket.socket()
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            bound.setsockopt(socket.SOL_SOCKET, option, 1)
        bound.bind((self.address, port))
        return bound

    def _listen(self):
        with self._lock:
            listening = self._bound(self.port)
            listening.listen(256)
            self._socket = listening
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def _accept(self, listening):
        while True:
            try:
                connected, _ = listening.accept()
            except OSError:
                return
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._count += 1
                connection = Connection(self, connected, self._count)
                self._connections.add(connection)
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection):
        connection.run()
        with self._lock:
            self._connections.discard(connection)

    def _stop_listening(self):
        with self._lock:
            listening, self._socket = self._socket, None
        if listening is not None:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
            listening.close()

    def _cut_off(self):
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)
