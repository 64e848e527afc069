"""Checks that the hub of tests/support itself works: each fault does what it says, and it sees a client's
violations."""

import email.utils
import gzip
import hashlib
import http.client
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from unittest import mock

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
sys.path.insert(0, SUPPORT)

import hub  # noqa: E402
import testing  # noqa: E402
from hub.content import LFS  # noqa: E402
from hub.faults import Fault  # noqa: E402
from hub.tls import Tls  # noqa: E402

WEIGHTS = bytes(range(256)) * 40
FILES = {"config.json": b"{}", "a/b.txt": b"text", "c.txt": b"", "d.txt": b"d", "model.safetensors": WEIGHTS}


def setUpModule():
    environment = mock.patch.dict(os.environ, testing.clean(), clear=True)
    environment.start()
    unittest.addModuleCleanup(environment.stop)


class Answer:
    def __init__(self, response, method):
        self.status = response.status
        self.headers = response.headers
        self.body = b"" if method == "HEAD" else response.read()


class HubTest(unittest.TestCase):
    def setUp(self):
        self.server = hub.Hub()
        self.addCleanup(self.server.close)
        self.repo = self.server.add("org/name", {"main": FILES})
        self.commit = self.repo.branches["main"]

    def get(self, url, method="GET", **headers):
        """Sends one request. Doesn't follow redirects."""
        parts = urllib.parse.urlsplit(url if "://" in url else self.server.endpoint + url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=testing.HANG_SECONDS)
        self.addCleanup(connection.close)
        target = parts.path + ("?" + parts.query if parts.query else "")
        connection.request(method, target, headers={name.replace("_", "-"): value for name, value in headers.items()})
        return Answer(connection.getresponse(), method)

    def data_url(self, path="model.safetensors"):
        return self.get(f"/org/name/resolve/{self.commit}/{path}", "HEAD").headers["Location"]

    def data(self, *faults, **headers):
        """Returns the data host's answer for the weights under these faults."""
        self.server.script("data", "GET", "*.safetensors", list(faults))
        return self.get(self.data_url(), **headers)

    def broken(self, *faults):
        """Returns the bytes of a body before the connection broke."""
        with self.assertRaises((http.client.IncompleteRead, ConnectionResetError)) as caught:
            self.data(*faults)
        return len(getattr(caught.exception, "partial", b""))

    def test_ranges_are_exact(self):
        for asked, begin, end in (("0-9", 0, 10), ("100-", 100, 10240), ("-5", 10235, 10240), ("9000-99999", 9000, 10240)):
            answer = self.get(self.data_url(), Range=f"bytes={asked}")
            self.assertEqual((answer.status, answer.body), (206, WEIGHTS[begin:end]), asked)
            self.assertEqual(answer.headers["Content-Range"], f"bytes {begin}-{end - 1}/10240")
        for asked in ("10240-", "20-10"):
            self.assertEqual(self.get(self.data_url(), Range=f"bytes={asked}").status, 416, asked)
        self.assertEqual(self.get(f"/org/name/resolve/{self.commit}/config.json", Range="bytes=1-1").body, b"}")

    def test_the_kinds_of_files_have_their_headers(self):
        plain = self.get(f"/org/name/resolve/{self.commit}/config.json")
        self.assertEqual((plain.status, plain.body), (200, b"{}"))
        self.assertEqual(plain.headers["ETag"], f'"{hashlib.sha1(b"blob 2" + bytes(1) + b"{}").hexdigest()}"')
        sha256 = hashlib.sha256(WEIGHTS).hexdigest()
        for kind in ("xet", "lfs"):
            if kind == "lfs":
                self.server.add("org/name", {"main": FILES}, kinds={"*.safetensors": LFS})
            found = self.get("/org/name/resolve/main/model.safetensors").headers
            self.assertEqual((found["X-Linked-Etag"], found["X-Linked-Size"]), (f'"{sha256}"', "10240"))
            self.assertEqual("X-Xet-Hash" in found, kind == "xet")
            self.assertEqual('rel="xet-auth"' in found.get("Link", ""), kind == "xet")
            etag = self.get(found["Location"]).headers["ETag"].strip('"')
            self.assertTrue(len(etag) == 64 and etag != sha256)
            for name in ("X-Repo-Commit", "RateLimit", "RateLimit-Policy", "X-Request-Id"):
                self.assertIn(name, found)
        self.repo = self.server.repos["org/name"]
        self.repo.plain_redirect = True
        moved = self.get("/org/name/resolve/main/a/b.txt")
        self.assertEqual(moved.status, 307)
        self.assertEqual(self.get(moved.headers["Location"]).body, b"text")

    def test_listings_come_in_pages_whose_links_can_be_bent(self):
        seen, url = [], f"/api/models/org/name/tree/{self.commit}?recursive=true"
        for pages in range(1, 10):
            answer = self.get(url)
            seen += [entry["path"] for entry in json.loads(answer.body)]
            if "Link" not in answer.headers:
                break
            url = answer.headers["Link"].partition(">")[0].removeprefix("<")
        self.assertEqual((seen, pages), (sorted([*FILES, "a"]), 2))
        self.server.link_endpoint = "https://huggingface.co"
        link = self.get(f"/api/models/org/name/tree/{self.commit}?recursive=true").headers["Link"]
        self.assertTrue(link.startswith("<https://huggingface.co/api/models/org/name/tree/"), link)

    def test_bodies_end_where_the_fault_says(self):
        self.assertEqual(self.broken("cut:1000"), 1000)
        self.assertEqual(self.broken("cut:0"), 0)
        self.assertLessEqual(self.broken("reset:1000"), 1000)
        self.assertEqual(self.data("short:3").body, WEIGHTS[:-3])
        with self.assertRaises(http.client.RemoteDisconnected):
            self.data("empty")
        self.assertEqual(self.data().body, WEIGHTS)
        self.assertEqual(self.server.log(fault="cut:1000")[0].bytes_sent, 1000)

    def test_time_passes_as_the_fault_says(self):
        for fault, least in (("stall:10:0.2", 0.2), ("hang:0.2", 0.2), ("slow:51200", 0.15)):
            begin = time.monotonic()
            self.assertEqual(self.data(fault).body, WEIGHTS)
            self.assertGreaterEqual(time.monotonic() - begin, least, fault)

    def test_a_listener_is_closed_and_opens_again(self):
        url = self.data_url()
        with self.assertRaises((http.client.RemoteDisconnected, ConnectionResetError)):
            self.data("refuse:3")
        with self.assertRaises(ConnectionRefusedError):
            self.get(url)

        def is_open():
            try:
                return self.get(url)
            except ConnectionRefusedError:
                return None

        self.assertEqual(testing.wait_until(is_open, "the listener opens again").body, WEIGHTS)

    def test_ranges_and_headers_are_bent_as_the_fault_says(self):
        def bent(fault):
            answer = self.data(fault, Range="bytes=10-19")
            return answer.status, answer.headers.get("Content-Range"), answer.body

        self.assertEqual(bent("norange"), (200, None, WEIGHTS))
        self.assertEqual(bent("wrongrange"), (206, "bytes 11-20/10240", WEIGHTS[11:21]))
        self.assertEqual(bent("wrongtotal:-1"), (206, "bytes 10-19/10239", WEIGHTS[10:20]))
        self.assertEqual(bent("header:Content-Range=bytes 10-19/*"), (206, "bytes 10-19/*", WEIGHTS[10:20]))
        self.assertEqual(bent("noheader:content-range"), (206, None, WEIGHTS[10:20]))
        status, _, body = bent("flip:3")
        self.assertEqual((status, [at for at in range(10) if body[at] != WEIGHTS[10 + at]]), (206, [3]))
        answer = self.data("gzip")
        self.assertEqual((answer.headers["Content-Encoding"], gzip.decompress(answer.body)), ("gzip", WEIGHTS))
        self.assertEqual(self.data("etag:other").headers["ETag"], '"other"')
        self.server.script("hub", "GET", "*/model.safetensors", ["header:X-Repo-Commit=none+etag:x"])
        bent_hub = self.get(f"/org/name/resolve/{self.commit}/model.safetensors").headers
        self.assertEqual((bent_hub["X-Repo-Commit"], bent_hub["X-Linked-Etag"]), ("none", '"x"'))

    def test_answers_are_replaced_as_the_fault_says(self):
        self.assertEqual(self.data("status:503").status, 503)
        answer = self.data("status:418+header:A=b+body:tea")
        self.assertEqual((answer.status, answer.headers["A"], answer.body), (418, "b", b"tea"))
        self.assertIn("text/html", self.data("html").headers["Content-Type"])
        self.assertEqual(self.data("redirect:http://x.invalid/y").headers["Location"], "http://x.invalid/y")
        self.assertEqual(self.data("retryafter:7").headers["Retry-After"], "7")
        begin = time.time()
        date = email.utils.parsedate_to_datetime(self.data("retryafter:date:60").headers["Retry-After"]).timestamp()
        self.assertTrue(begin + 59 <= date <= time.time() + 61, f"{date} isn't a minute after {begin}")
        limited = self.data("rate:0,9")
        self.assertEqual((limited.status, limited.headers["RateLimit"]), (429, '"pages";r=0;t=9'))
        self.server.quota["api"] = 1
        self.assertEqual([self.get("/api/models/org/name").status for _ in range(2)], [200, 429])
        for wrong in ("cut", "cut:x", "none:1", "norange:1", "stall:1"):
            with self.assertRaises(ValueError, msg=wrong):
                Fault(wrong)

    def test_urls_expire_by_the_clock_and_by_fault(self):
        url = self.data_url()
        self.server.advance(3601)
        self.assertEqual(self.get(url).status, 403)
        self.assertEqual(self.data("expire").status, 403)
        self.assertEqual(self.get(self.data_url()).body, WEIGHTS)
        signed = self.data_url()
        self.assertEqual(self.get(signed[:-1] + ("0" if signed[-1] != "0" else "1")).status, 403)
        self.assertEqual(self.get(signed.replace("Expires=", "Expires=9")).status, 403)
        self.assertFalse(self.server.violations(), self.server.violations())

    def test_faults_happen_once_each_in_order_to_what_matches(self):
        self.server.script("hub", "GET", "*/none", ["status:500"])
        self.server.script("hub", "HEAD", "/api/*", ["status:501"])
        self.server.script("*", "*", "/api/models/*", ["status:502", "ok", "status:504"])
        self.assertEqual([self.get("/api/models/org/name").status for _ in range(4)], [502, 200, 504, 200])
        self.assertEqual(self.server.faults.left(), 2)
        self.server.script("hub", "GET", "*config.json", ["status:500"], repeat=True)
        url = f"/org/name/resolve/{self.commit}/config.json"
        self.assertEqual([self.get(url).status for _ in range(3)], [500] * 3)

    def test_misdeeds_of_clients_are_seen(self):
        def kinds():
            return [violation.kind for violation in self.server.violations()]

        url = self.data_url()
        self.get(url)
        self.get("/api/models/org/name", Authorization="Bearer none")
        self.assertEqual(kinds(), [])
        self.get(url, Authorization="Bearer x", Cookie="y")
        self.assertEqual(kinds(), ["authorization_on_data", "cookie_on_data"])
        self.get(self.server.stranger.origin, Authorization="Bearer x")
        self.assertEqual(kinds()[2:], ["authorization_on_stranger"])
        self.server.reset()
        for _ in range(2):
            self.get("/api/models/org/name")
        self.assertEqual(kinds(), ["branch_again"])
        self.get(url, Range="bytes=0-1", Accept_Encoding="gzip")
        self.assertEqual(kinds()[1:], ["accept_encoding"])
        for _ in range(2):
            self.data_url()
        self.assertEqual(kinds()[2:], ["resolver_calls"])
        self.get("/none")
        self.assertEqual(kinds()[3:], ["unknown_request"])

    def test_the_log_has_no_secrets(self):
        self.get(self.data_url(), Authorization="Bearer secret", Range="bytes=0-9")
        told = str(self.server.log())
        for secret in ("secret", "Signature", "Expires"):
            self.assertNotIn(secret, told)
        entry = self.server.log(listener="data")[0]
        self.assertEqual((entry.file, entry.range, entry.status, entry.bytes_sent, entry.had_authorization),
                         ("org/name/model.safetensors", "bytes=0-9", 206, 10, True))

    def test_with_tls_only_who_trusts_the_authority_is_served(self):
        with tempfile.TemporaryDirectory() as folder, hub.Hub(tls=Tls(folder)) as server:
            server.add("org/name", {"main": FILES})
            url = f"{server.endpoint}/org/name/resolve/main/model.safetensors"
            trusting = ssl.create_default_context(cafile=server.ca_file)
            with urllib.request.urlopen(url, context=trusting, timeout=testing.HANG_SECONDS) as response:
                self.assertEqual(response.read(), WEIGHTS)
            with self.assertRaises(urllib.error.URLError):
                urllib.request.urlopen(url, context=ssl.create_default_context(), timeout=testing.HANG_SECONDS)

    def test_it_runs_as_a_program_that_is_steered(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("one/config.json", "1"), ("two/config.json", "2"), ("root/org/other/x.txt", "3")):
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path))
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            ports = os.path.join(folder, "ports.json")
            words = ["--repo", f"org/name={folder}/one", "--repo", f"org/name={folder}/two@dev", "--root", f"{folder}/root"]
            with subprocess.Popen([sys.executable, "-m", "hub", "serve", *words, "--port-file", ports], cwd=SUPPORT) as program:
                try:
                    self.assertTrue(testing.wait_for(program, lambda: os.path.exists(ports), "the port file"), "it has ended")
                    with open(ports, encoding="utf-8") as file:
                        self.check_steered(json.load(file))
                    program.terminate()
                    self.assertEqual(program.wait(testing.HANG_SECONDS), 0)
                finally:
                    program.kill()

    def check_steered(self, at):
        """Controls a hub by the URLs of its port file."""
        def steer(verb, **said):
            body = json.dumps(said).encode() if said else None
            with urllib.request.urlopen(at["control"] + verb, body, timeout=testing.HANG_SECONDS) as response:
                return json.loads(response.read())

        urls = [f"{at['endpoint']}/org/name/resolve/{revision}/config.json" for revision in ("main", "dev")]
        self.assertEqual([self.get(url).body for url in urls], [b"1", b"2"])
        self.assertEqual(self.get(f"{at['endpoint']}/org/other/resolve/main/x.txt").body, b"3")
        steer("script", listener="hub", faults=["status:500"])
        self.assertEqual([self.get(urls[0]).status for _ in range(2)], [500, 200])
        self.assertEqual([entry["status"] for entry in steer("log")], [200, 200, 200, 500, 200])
        self.assertEqual(steer("violations")[0]["kind"], "branch_again")
        steer("reset", all=True)
        self.assertEqual(steer("log"), [])


if __name__ == "__main__":
    unittest.main()
