#!/usr/bin/env python3
"""Checks where the token goes, by system calls. strace shows every sent byte, and its receiver.

The token is in as many calls as the hub got requests, and each of those goes to the hub. Redirects of the hub and its
data host don't change that: another host, another port, a private address, or https to http. Over TLS, it is in no
call.
"""

import re
import shutil
import subprocess
import sys
import tempfile

import harness
import testing  # (found by harness)
from hub_stream import API, MODEL, SHARD, TOKEN, Stream

import hub  # (the same)
from hub.tls import Tls

CALLS = "connect,sendto,sendmsg,sendmmsg,write,writev"
PEER = re.compile(r"(\w+)\((\d+)<(\w+):\[(?:[^\]]*->)?([^\]]*)\]>")
PRIVATE = "10.11.12.13"


def trace_works():
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-f", "-e", "trace=none", "true"], capture_output=True, check=False).returncode == 0


class Token:
    def __init__(self, fault, stream):
        self.fault, self.stream, self.server = fault, stream, stream.server

    def traced(self, command, **environment):
        """Returns (status, printed text, [(call, line)]) of one command."""
        log = self.fault.path("calls")
        done = subprocess.run(["strace", "-f", "--seccomp-bpf", "-qq", "-yy", "-s", "8192", "-e", f"trace={CALLS}", "-e",
                               "signal=none", "-o", log, *command], capture_output=True, text=True, check=False,
                              env=self.stream.environment(HF_HUB_ETAG_TIMEOUT="60", **environment), timeout=testing.HANG_SECONDS)
        with open(log, encoding="utf-8", errors="replace") as file:
            return done.returncode, done.stdout + done.stderr, file.read().splitlines()

    def expect_token(self, when, lines, port):
        """Checks that every call with the token goes to the hub's port, once for each request."""
        with_token = [line for line in lines if TOKEN in line]
        for line in with_token:
            peer = PEER.search(line)
            self.fault.expect(peer is not None and peer.group(4) == f"127.0.0.1:{port}", f"{when}: {line[:200]}")
        asked = len(self.server.log(listener="hub"))
        self.fault.expect(asked > 0 and len(with_token) == asked, f"{when}: {len(with_token)} calls of {asked} requests")
        return len(with_token)

    def cases(self):
        elsewhere = self.server.listeners["stranger"].origin
        other_port = f"http://127.0.0.1:{self.server.data.port}"
        api = "/api/models/" + MODEL
        return {
            "nothing wrong": (0, []),
            "the hub sends to another host": (4, [("hub", API, f"redirect:{elsewhere}{api}")]),
            "the hub sends to another port": (4, [("hub", API, f"redirect:{other_port}{api}")]),
            "the hub sends to a private address": (4, [("hub", API, f"redirect:http://{PRIVATE}{api}")]),
            "a file is at another host": (4, [("hub", "*/resolve/*.safetensors", f"redirect:{elsewhere}/file")]),
            "the data host sends to another host": (4, [("data", SHARD, f"redirect:{elsewhere}/file")]),
            "the data host sends to the hub's other name": (4, [("data", SHARD, f"redirect:http://localhost:{self.server.hub.port}{api}")]),
        }

    def plain(self):
        for when, (status, scripts) in self.cases().items():
            name = self.stream.fresh()
            for listener, pattern, text in scripts:
                self.server.script(listener, "GET", pattern, [text], repeat=True)
            ends, said, lines = self.traced(self.stream.command(name))
            self.fault.expect(ends == status, f"{when}: ends with {ends}: {said}")
            calls = [line for line in lines if TOKEN in line]
            if "other name" in when:  # it isn't the hub's, so its requests have no token
                calls = [line for line in calls if PEER.search(line)]
                without = [entry for entry in self.server.log(listener="hub") if not entry.had_authorization]
                self.fault.expect(without, f"{when}: nobody came there")
            else:
                self.expect_token(when, lines, self.server.hub.port)
            self.fault.expect(not any(PRIVATE in line and "connect(" in line for line in lines), f"{when}: the private address was called")
            violations = [violation for violation in self.server.violations() if violation.kind.startswith("authorization")]
            self.fault.expect(not violations, f"{when}: {violations[:2]}")
            print(f"{when}: {len(calls)} calls with the token, {len(lines)} in all")

    def over_tls(self):
        """Checks that https is never redirected to http, and that nobody can read it on the way."""
        with tempfile.TemporaryDirectory() as folder, hub.Hub(tls=Tls(folder)) as server:
            server.tokens = {TOKEN: "tester"}
            server.add(MODEL, {"main": self.fault.path("source")})
            elsewhere = server.listeners["stranger"].origin
            for when, pattern, target in (("nothing wrong", None, ""), ("to http", API, f"{elsewhere}/api/models/{MODEL}"),
                                          ("a file by http", "*/resolve/*", f"{elsewhere}/file")):
                server.reset()
                if pattern:
                    server.script("hub", "GET", pattern, [f"redirect:{target}"], repeat=True)
                command = self.fault.command("plan", MODEL, "--retry-ms", "1")
                ends, said, lines = self.traced(command, HF_ENDPOINT=server.endpoint, SSL_CERT_FILE=server.ca_file)
                self.fault.expect(ends == (4 if pattern else 0), f"TLS, {when}: {ends}: {said}")
                self.fault.expect(not any(TOKEN in line for line in lines), f"TLS, {when}: the token can be read")
                self.fault.expect(all(entry.had_authorization for entry in server.log(listener="hub")), f"TLS, {when}: no token")
                self.fault.expect(not server.log(listener="stranger"), f"TLS, {when}: the stranger was asked")
        print("TLS: no call with the token")


def main():
    if not trace_works():
        print("PEER MISSING strace")
        return 77
    with harness.Fault(__doc__.split("\n", maxsplit=1)[0]) as fault:
        stream = Stream(fault)
        with stream.server:
            token = Token(fault, stream)
            token.plain()
            token.over_tls()
    print("PASS")
    return 0


if __name__ == "__main__":
    sys.exit(main())
