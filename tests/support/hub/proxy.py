"""Runs an HTTP proxy on the loopback interface: CONNECT, and requests with a whole URL. It records the text that it
could read."""

import contextlib
import socket
import threading
import urllib.parse

PIECE_BYTES = 1 << 16
REFUSED = "HTTP/1.1 {} Refused\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"


class Proxy:
    """A proxy. `heads` are the requests as they came, and `hosts` their targets. With `refuses`, it answers
    every request with that status. A context."""

    def __init__(self, refuses=None):
        self.refuses = refuses
        self.heads, self.hosts = [], []
        self._sockets = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        for used in [self._listening, *self._sockets]:
            used.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                self._sockets.add(near)
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        with contextlib.suppress(OSError), near:
            head = b""
            while b"\r\n\r\n" not in head:
                data = near.recv(PIECE_BYTES)
                if not data:
                    return
                head += data
            self.heads.append(head)
            method, target, _ = head.split(b"\r\n")[0].decode("latin-1").split(" ")
            host = target if method == "CONNECT" else urllib.parse.urlsplit(target).netloc
            self.hosts.append(host)
            if self.refuses:
                near.sendall(REFUSED.format(self.refuses).encode())
                return
            name, _, port = host.rpartition(":")
            with socket.create_connection((name, int(port))) as far:
                self._sockets.add(far)
                if method == "CONNECT":
                    near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:  # one request for each connection
                    first, rest = head.split(b"\r\n", 1)
                    path = target.split(host, 1)[1]
                    far.sendall(first.replace(target.encode(), path.encode()) + b"\r\nConnection: close\r\n" + rest)
                back = threading.Thread(target=self._carry, args=(far, near), daemon=True)
                back.start()
                if method == "CONNECT":
                    self._carry(near, far)
                back.join()

    @staticmethod
    def _carry(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(PIECE_BYTES):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
