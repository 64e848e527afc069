#!/usr/bin/env python3
"""Runs `hfshard fetch` from the loopback hub (tests/support/hub). After any failure, a cached file is complete or
absent.

hfshard survives faults of the network, or the error names the file and the same command continues. Wrong bytes never
get a name. hfshard doesn't request cached bytes again. A kill leaves nothing that a reader takes for a file. Only the
hub sees the token.
"""

import argparse
import contextlib
import fcntl
import fnmatch
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))

import hub  # noqa: E402  (a package of tests/support)
import testing  # noqa: E402

MODEL, FOLDER, TOKEN = "org/model", "models--org--model", "hf_of_the_tester"
WEIGHTS = bytes(range(256)) * 70_000
FILES = {"config.json": b"{}", "model-1.safetensors": WEIGHTS, "model-2.safetensors": WEIGHTS[::-1],
         "twin.safetensors": WEIGHTS, "sub/a b.txt": b"text", "empty.txt": b""}
OUTLIVED = ["cut:1000", "cut:0", "reset:70000", "short:1", "empty", "status:503", "rate:0,1", "expire", "norange",
            "wrongrange:1", "wrongtotal", "gzip", "html", "stall:1000:4"]
REFUSED = {"flip:100": ("corrupt", 3), "etag:0123": ("", 3)}


class Fetch:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.server = hub.Hub()
        self.server.tokens = {TOKEN: "tester"}
        self.repo = self.server.add(MODEL, {"main": FILES})
        self.commit = self.repo.branches["main"]
        self.failures = self.checks = self.caches = 0
        self.cache = ""
        self.fresh()

    def fresh(self):
        self.server.reset()
        self.caches += 1
        self.cache = os.path.join(self.folder, f"cache{self.caches}")

    def expect(self, condition, sentence):
        self.checks += 1
        if not condition:
            self.failures += 1
            print(f"FAIL {sentence}")

    def start(self, *words, model=MODEL, **environment):
        told = {"HF_ENDPOINT": self.server.endpoint, "HF_HUB_CACHE": self.cache, "HF_TOKEN": TOKEN,
                "HF_HUB_DOWNLOAD_TIMEOUT": "60", **environment}
        return subprocess.Popen([self.program, "fetch", model, "--retry-ms", "20", *words], env=testing.clean(**told), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *words, **more):
        """Returns (status, JSON, printed text)."""
        with self.start("--json", *words, **more) as program:
            out, said = program.communicate(timeout=testing.HANG_SECONDS)
        self.expect(TOKEN not in out + said and "Signature" not in out + said, "a secret is printed")
        return program.returncode, json.loads(out) if out else {}, said

    def there(self, commit=None):
        snapshot = os.path.join(self.cache, FOLDER, "snapshots", commit or self.commit)
        found = {}
        for path in FILES:
            place = os.path.join(snapshot, path)
            if os.path.exists(place):
                with open(place, "rb") as file:
                    found[path] = file.read()
        return found

    def leftovers(self):
        return glob.glob(os.path.join(self.cache, FOLDER, "blobs", "*.incomplete"))

    def left_bytes(self):
        """Returns the size of the largest partial file. Returns 0 without partial files, or if it was renamed meanwhile."""
        with contextlib.suppress(FileNotFoundError):
            return max(map(os.path.getsize, self.leftovers()), default=0)
        return 0

    def expect_whole(self, when):
        self.expect(self.there() == FILES and not self.leftovers(), f"{when}: {sorted(self.there())} are there")
        with open(os.path.join(self.cache, FOLDER, "refs", "main"), encoding="utf-8") as file:
            self.expect(file.read() == self.commit, f"{when}: the reference is another")

    def plain(self):
        status, told, said = self.run()
        size = sum(len(data) for data in FILES.values())
        # Twins are one blob.
        self.expect(status == 0 and told.get("fetched_files") == len(FILES) - 1, f"fetched: {status} {told} {said}")
        self.expect(told.get("bytes") == size and told.get("fetched_bytes") == size - len(WEIGHTS), f"bytes are {told}")
        self.expect_whole("fetched")
        self.expect(not self.server.violations(), f"violations: {self.server.violations()}")
        self.expect(all(entry.had_authorization for entry in self.server.log(listener="hub")), "the hub saw no token")
        self.server.reset()
        status, told, said = self.run()
        asked = [entry.path for entry in self.server.log()]
        self.expect(status == 0 and told["fetched_files"] == 0, f"again: {status} {told} {said}")
        self.expect(asked == [f"/api/models/{MODEL}"], f"again, {asked} were asked")
        with self.start() as program:
            out, said = program.communicate(timeout=testing.HANG_SECONDS)
        self.expect(f"complete  {len(FILES)} files" in out and "fetched   0" not in out, f"again, in words: {out} {said}")
        self.fresh()
        self.run("--include", "config.json")
        with self.start("--include", "*.json", "--include", "sub/") as program:
            out, said = program.communicate(timeout=testing.HANG_SECONDS)
        self.expect("fetched   1 of 2 files, 4 B of 6 B\n" in out, f"the rest, in words: {out} {said}")

    def some(self):
        self.fresh()
        second = self.repo.commit({"config.json": b"[]", "sub.txt": b"above", "sub-2/c.txt": b"beside"}, "refs/pr/1",
                                  parent=self.commit)
        status, told, said = self.run("--include", "sub/", "--revision", "refs/pr/1")
        self.expect(status == 0 and told["files"] == 1 and self.there(second) == {"sub/a b.txt": b"text"},
                    f"a folder by its glob: {told} {said}")
        refs = os.path.join(self.cache, FOLDER, "refs")
        self.expect(os.path.exists(os.path.join(refs, "refs", "pr", "1")) and not os.path.exists(os.path.join(refs, "main")),
                    "the reference isn't the fetched revision's")
        self.fresh()
        status, told, said = self.run("--include", "*.json", "--include", "sub/", "--exclude", "*.txt", "--revision",
                                      "refs/pr/1")
        self.expect(status == 0 and told["files"] == 1 and self.there(second) == {"config.json": b"[]"}, f"some: {told} {said}")
        status, told, said = self.run("--include", "none*")
        self.expect((status, told["error"]["code"]) == (3, "not_found"), f"no file: {status} {told}")
        status, told, said = self.run(model=f"hf://{MODEL}@refs/pr/1/sub")
        self.expect(status == 0 and told["files"] == 1 and set(self.there(second)) == {"config.json", "sub/a b.txt"}, f"a folder: {told} {said}")

    def faults(self):
        for fault in OUTLIVED:
            self.fresh()
            self.server.script("data", "GET", "*.safetensors", ["ok", fault])
            patience = {"HF_HUB_DOWNLOAD_TIMEOUT": "2"} if fault.startswith("stall") else {}
            status, _, said = self.run(**patience)
            self.expect(status == 0, f"{fault}: {status} {said}")
            self.expect_whole(fault)
        for fault, (code, exits) in REFUSED.items():
            self.fresh()
            self.server.script("data", "GET", "*/model-2.safetensors", ["ok", fault, "ok"])
            status, told, _ = self.run()
            error = told.get("error", {})
            self.expect(status == exits and error.get("code") == (code or error.get("code")) and
                        "model-2.safetensors" in error.get("file", ""), f"{fault}: {status} {told}")
            self.expect("model-2.safetensors" not in self.there() and not self.leftovers(), f"{fault}: something is left")
            self.expect(not os.path.exists(os.path.join(self.cache, FOLDER, "refs")), f"{fault}: there is a reference")
            self.expect(self.run()[0] == 0, f"{fault}: the same again fails")
            self.expect_whole(f"{fault}, and again")

    def locked(self):
        """Another client downloads a file, so hfshard waits for its lock and says which file that is."""
        self.fresh()
        etag = self.repo.commits[self.commit].files["model-1.safetensors"].etag
        locks = os.path.join(self.cache, ".locks", FOLDER)
        os.makedirs(locks)
        with open(os.path.join(locks, f"{etag}.lock"), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with self.start() as program:
                told = next((line for line in program.stderr if "waiting" in line), "")
                fcntl.flock(lock, fcntl.LOCK_UN)
                said = program.communicate(timeout=testing.HANG_SECONDS)[1]
        self.expect(told.startswith("note: waiting for another download: "), f"a lock: {told}{said}")
        self.expect(program.returncode == 0, f"after the lock: {said}")
        self.expect_whole("after the lock")

    def interrupted(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            self.fresh()
            # Half of the file arrives, in one request or in several, and then nothing. However long the disk takes for
            # the other file, the run is still there.
            self.server.script("data", "GET", "*/model-2.safetensors", ["hold:9000000:600"], repeat=True)
            with self.start(HF_HUB_DOWNLOAD_TIMEOUT="600") as program:
                testing.wait_for(program, lambda: "model-1.safetensors" in self.there() and self.left_bytes(),
                                 "one file and a part of another are there")
                program.send_signal(number)
                _, said = program.communicate(timeout=testing.HANG_SECONDS)
            self.expect(program.returncode == status, f"{number}: ends with {program.returncode} {said}")
            found = self.there()
            self.expect(all(FILES[path] == data for path, data in found.items()) and "model-2.safetensors" not in found,
                        f"{number}: {sorted(found)} are there")
            self.expect(number == signal.SIGKILL or not self.leftovers(), f"{number}: something is left")
            self.server.reset()
            there = self.left_bytes()
            self.expect(self.run()[0] == 0 and self.there() == FILES, f"{number}: the same again fails")
            self.expect(not self.leftovers(), f"{number}: {self.leftovers()} are left")
            again = sum(entry.bytes_sent for entry in self.server.log(listener="data", path_has="model-2.safetensors"))
            self.expect(number != signal.SIGKILL or there > 0, f"{number}: nothing was there to go on with")
            self.expect(again <= len(FILES["model-2.safetensors"]) - there,
                        f"{number}: {there} bytes were there, {again} came again")
            self.expect(not self.server.log(path_has="model-1.safetensors"), f"{number}: a whole file was fetched again")

    def interrupted_early(self):
        """Interrupts while the hub doesn't answer for ten minutes, about the commit or the files. hfshard must end
        long before, with the same words."""
        for pattern in ("*/api/models/org/model", "*/tree/*"):
            self.fresh()
            self.server.script("hub", "GET", pattern, ["hang:600"])
            with self.start(HF_HUB_DOWNLOAD_TIMEOUT="600") as program:
                asked = lambda name=pattern: any(fnmatch.fnmatch(entry.path, name) for entry in self.server.requests.begun())
                testing.wait_for(program, asked, f"a request of {pattern}")
                program.send_signal(signal.SIGINT)
                _, said = program.communicate(timeout=testing.HANG_SECONDS)
            self.expect(program.returncode == 130, f"{pattern}: {program.returncode}: {said}")
            self.expect("completed files were kept" in said and "run the same command again" in said, f"{pattern}: {said}")

    def refusals(self):
        self.fresh()
        status, told, _ = self.run(HF_HUB_OFFLINE="1")
        self.expect((status, told["error"]["code"]) == (2, "usage") and not self.server.log(), f"offline: {status} {told}")
        status, told, _ = self.run(model="./none")
        self.expect((status, told["error"]["code"]) == (2, "usage"), f"no name: {status} {told}")
        self.repo.gated = True
        status, told, _ = self.run()
        self.repo.gated = False
        self.expect((status, told["error"]["code"]) == (3, "access") and "accept" in json.dumps(told).lower(), f"gated: {status} {told}")
        status, told, _ = self.run(HF_TOKEN="hf_of_nobody")
        self.expect((status, told["error"]["code"]) == (3, "access") and "HF_TOKEN" in told["error"]["hint"], f"a bad token: {status} {told}")
        self.expect(not os.path.exists(os.path.join(self.cache, FOLDER, "refs")), "a refused model has a reference")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hfshard", required=True)
    program = os.path.abspath(parser.parse_args().hfshard)
    testing.clean_own()
    folder = tempfile.mkdtemp(prefix="hfshard_hub_fetch_")
    try:
        test = Fetch(program, folder)
        test.plain()
        test.some()
        test.faults()
        test.locked()
        test.interrupted()
        test.interrupted_early()
        test.refusals()
        test.server.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{test.checks - test.failures} of {test.checks} checks passed", flush=True)
    return 1 if test.failures else 0


if __name__ == "__main__":
    sys.exit(main())
