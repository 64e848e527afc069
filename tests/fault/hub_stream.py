#!/usr/bin/env python3
"""Converts a model from the loopback hub (tests/support/hub), with faults. The result is that of the local directory.

With each network fault alone, the tree is the local one. Or the error names the file and the answer, and --resume gives
the tree. Then random schedules of faults follow. Only hubs see the token. Several workers read each byte once.
"""

import json
import os
import re
import signal
import subprocess
import urllib.request

import harness
import testing  # (found by harness)

import hub  # (the same)

MODEL = "org/model"
TOKEN = "hf_of_the_tester"
SHARD = "*.safetensors"
API = "*/api/models/*"
# As many tensors as in the other tests, and a third of the bytes. Requests are small, so there are some dozens of them.
CONFIG = {**harness.CONFIG, "hidden_size": 256, "intermediate_size": 1024}
LIMITS = "request_bytes=330000,segment_bytes=100000,commit_bytes=6600000,file_min_bytes=3300000,file_max_bytes=6600000"
# Faults that the conversion survives unnoticed: listener, path, faults, one for each request that matches.
SURVIVED = {
    "a body that is cut": ("data", SHARD, ["ok", "cut:1000", "cut:0", "reset:70000"]),
    "a body that is short": ("data", SHARD, ["short:1", "ok", "short:5000"]),
    "no answer": ("data", SHARD, ["empty", "ok", "empty"]),
    "a host that is away for a while": ("data", SHARD, ["ok", "ok", "refuse:0.05"]),
    "503": ("data", SHARD, ["status:503", "status:500", "status:502", "status:504"]),
    "503 with Retry-After": ("data", SHARD, ["retryafter:1", "retryafter:date:1"]),
    "429": ("data", SHARD, ["rate:0,1", "status:429"]),
    "a URL that expires": ("data", SHARD, ["ok", "ok", "ok", "expire"]),
    "a whole file for a range": ("data", SHARD, ["ok", "norange"]),
    "another range": ("data", SHARD, ["wrongrange:1", "ok", "wrongtotal:1"]),
    "a compressed range": ("data", SHARD, ["ok", "gzip"]),
    "a stall": ("data", SHARD, ["ok", "stall:1000:4"]),
    "a page for people with 200": ("data", SHARD, ["html"]),
    "a redirect of the data host": ("data", SHARD, []),
    "500 of the hub": ("hub", "*", ["status:500", "ok", "status:502", "ok", "status:504"]),
    "429 of the hub": ("hub", "*", ["rate:0,1", "ok", "retryafter:1"]),
    "no answer of the hub": ("hub", "*", ["empty", "ok", "cut:3", "ok", "reset:0"]),
}# They end only when the client has waited too long.
SLOW = ("a stall", "three bytes a second")
# Faults that end the run, and the error.
REFUSED = {
    "another ETag": ("data", SHARD, ["ok", "ok", "etag:0123"], "the file changed while hfshard read it"),
    "always 503": ("data", SHARD, ["status:503"], "status 503; hfshard tried"),
    "three bytes a second": ("data", SHARD, ["slow:3"], "Operation too slow"),
    "always another range": ("data", SHARD, ["wrongrange:1"], "the server sent another range"),
    "always forbidden": ("data", SHARD, ["status:403+body:no entry"], "no entry"),
    "a byte of config.json": ("hub", "*/config.json", ["flip:10"], "git object id"),
    "a login page": ("hub", API, ["html"], "isn't JSON"),
    "no commit": ("hub", "*/resolve/*", ["noheader:X-Repo-Commit"], "lacks a commit"),
    "circles": ("hub", API, ["redirect:/api/models/org/model"], "in circles"),
    "another host": ("hub", API, ["redirect:{stranger}/api/models/org/model"], "which isn't a Hub"),
    "no address": ("hub", API, ["redirect:file:///etc/passwd"], "isn't an HTTP address"),
}


def without_own_sum(text):
    """Returns a record without its own digest, in which the commit counts."""
    return re.sub(r'"record_sha256":\s*\[[^]]*\]', "", text)


def is_idle(pid):
    """Returns whether each thread of a process waits. One that is only out of turn is runnable."""
    folder = f"/proc/{pid}/task"
    states = []
    for thread in os.listdir(folder):
        with open(f"{folder}/{thread}/stat", encoding="utf-8") as file:
            states.append(file.read().rsplit(")", 1)[1].split()[0])
    return set(states) == {"S"}


class Stream:
    def __init__(self, fault):
        self.fault = fault
        self.server = hub.Hub()
        self.server.tokens = {TOKEN: "tester"}
        self.server.page_size = 2
        with open(fault.path("source/tokenizer.json"), "w", encoding="ascii") as file:
            json.dump({"version": "1.0", "words": [f"word {i}" for i in range(2000)]}, file)
        self.repo = self.server.add(MODEL, {"main": fault.path("source")})
        self.tree = None
        self.count = 0

    def environment(self, **more):
        # A request that a busy machine answers late must not be sent twice, since tests count bytes.
        told = {"HF_ENDPOINT": self.server.endpoint, "HF_HOME": self.fault.path("hf_home"), "HF_TOKEN": TOKEN,
                "HF_HUB_DOWNLOAD_TIMEOUT": "60"}
        return testing.clean(**{**told, **more})

    def command(self, name, *options, source=MODEL, limits=LIMITS):
        return self.fault.command("convert", source, self.fault.path(name), "--mesh", "fsdp=4", "--retry-ms", "20", "--limits",
                                  limits, *options)

    def run(self, name, *options, source=MODEL, **environment):
        return subprocess.run(self.command(name, *options, source=source), capture_output=True, text=True, check=False,
                              env=self.environment(**environment), timeout=2 * testing.HANG_SECONDS)

    def fresh(self):
        self.count += 1
        self.server.reset()
        return f"out{self.count}"

    def commit_in(self, name):
        """Removes the commit from an output's hfshard.json, so that it equals the local one's. Returns the commit."""
        path = self.fault.path(f"{name}/0/hfshard.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        commit = json.loads(text).get("revision", "")
        with open(path, "w", encoding="utf-8") as file:
            file.write(without_own_sum(text.replace(f'"revision":"{commit}",', "")))
        return commit

    def expect_same(self, name, when):
        self.fault.expect(self.fault.tree(name) is not None, f"{when}: there is no output")
        commit = self.commit_in(name)
        self.fault.expect(len(commit) == 40, f"{when}: no commit is recorded")
        self.fault.expect_same(name, self.tree, when)

    def expect_clean(self, when, *allowed):
        found = [violation for violation in self.server.violations() if violation.kind not in allowed]
        self.fault.expect(not found, f"{when}: {found[:3]}")

    def said(self, done):
        return done.stdout + done.stderr

    def expect_no_token(self, when, done):
        self.fault.expect(TOKEN not in self.said(done), f"{when}: the token is printed")
        self.fault.expect("Signature=" not in self.said(done), f"{when}: a signed URL is printed")

    # -- the tests

    def plain(self):
        """Checks the output of the local directory, one request for each byte, and the token only at the hub."""
        local = self.fault.run("convert", self.fault.path("source"), self.fault.path("local"), "--mesh", "fsdp=4", "--limits",
                               LIMITS)
        self.fault.check(local)
        self.commit_in("local")
        self.tree = self.fault.tree("local")
        name = self.fresh()
        done = self.fault.check(self.run(name, "--json"))
        self.expect_same(name, "streamed")
        self.expect_clean("streamed")
        network = json.loads(done.stdout)["network"]
        size = sum(os.path.getsize(os.path.join(self.fault.path("source"), file))
                   for file in os.listdir(self.fault.path("source")))
        sent = sum(entry.bytes_sent for entry in self.server.log(listener="data"))
        print(f"streamed: {size} bytes in {network}, {sent} sent")
        # 128 KiB of each file come for its header, and again as data.
        self.fault.expect(sent <= 1.02 * size + (128 << 10), f"{sent} bytes were sent of {size}")
        self.fault.expect(network["data_bytes"] >= network["used_bytes"] > 0.9 * size, f"{network}")
        self.fault.expect(network["unchecked_bytes"] == network["used_bytes"], f"{network}")
        data = self.server.log(listener="data")
        self.fault.expect(data and not any(entry.had_authorization for entry in data), "the data host saw the token")
        hubs = self.server.log(listener="hub")
        self.fault.expect(all(entry.had_authorization for entry in hubs), "the hub did not see the token")
        self.fault.expect(not os.path.exists(self.fault.path("hf_home")), "something was written to the cache")
        self.expect_no_token("streamed", done)

    def need(self):
        """Returns the least memory that a conversion takes."""
        plan = self.fault.command("plan", MODEL, "--mesh", "fsdp=4", "--limits", LIMITS, "--json")
        told = self.fault.check(subprocess.run(plan, capture_output=True, text=True, check=False, env=self.environment()))
        return json.loads(told.stdout)["need_memory_bytes"]

    def least_memory(self):
        need = self.need()
        name = self.fresh()
        self.fault.check(self.run(name, "--max-memory", str(need)))
        self.expect_same(name, f"with {need} bytes of memory")

    def patience(self, when):
        return {"HF_HUB_DOWNLOAD_TIMEOUT": "2"} if when in SLOW else {}

    def survived(self):
        for when, (listener, pattern, faults) in SURVIVED.items():
            name = self.fresh()
            self.server.script(listener, "GET", pattern, faults)
            done = self.fault.check(self.run(name, **self.patience(when)))
            self.expect_same(name, when)
            self.expect_clean(when)
            self.expect_no_token(when, done)
        print(f"{len(SURVIVED)} faults survived")

    def refused(self):
        for when, (listener, pattern, faults, words) in REFUSED.items():
            name = self.fresh()
            faults = [fault.replace("{stranger}", self.server.listeners["stranger"].origin) for fault in faults]
            for fault in faults[:-1]:
                self.server.script(listener, "GET", pattern, [fault])
            self.server.script(listener, "GET", pattern, faults[-1:], repeat=True)
            done = self.run(name, **self.patience(when))
            self.fault.expect(done.returncode in (3, 4), f"{when}: status {done.returncode}\n{self.said(done)}")
            self.fault.expect(words in " ".join(done.stderr.split()), f"{when}: {done.stderr}")
            self.fault.expect(self.fault.tree(name) is None, f"{when}: something was published")
            self.expect_clean(when)
            self.expect_no_token(when, done)
            self.server.faults.clear()
            done = self.fault.check(self.run(name, "--resume"))
            self.expect_same(name, f"{when}, resumed")
        print(f"{len(REFUSED)} faults refused, and resumed")

    def at_random(self, rounds):
        """Runs random faults at random requests."""
        random = self.fault.random
        survived = 0
        for number in range(rounds):
            name = self.fresh()
            kinds = ["ok"] * 8 + ["cut:5000", "reset:100", "short:10", "empty", "status:503", "status:500", "norange",
                                  "wrongrange:3", "gzip", "retryafter:1", "html"]
            if number % 2 == 1:  # these end a run
                kinds += ["expire", "status:403", "etag:zz", "status:404"]
            schedule = [random.choice(kinds) for _ in range(random.randint(5, 60))]
            self.server.script("data", "GET", "*", schedule)
            self.server.script("hub", "GET", "*", [random.choice(["ok", "ok", "ok", "ok", "status:500", "empty", "html", "cut:9"])
                                                   for _ in range(8)])
            done = self.run(name)
            when = f"schedule {number} of seed {self.fault.arguments.seed}"
            self.expect_no_token(when, done)
            if done.returncode != 0:
                self.fault.expect(done.returncode in (3, 4) and "error [" in done.stderr, f"{when}: {self.said(done)}")
                self.fault.expect(self.fault.tree(name) is None, f"{when}: something was published")
                self.server.faults.clear()
                self.fault.check(self.run(name, "--resume"))
            else:
                survived += 1
            self.expect_same(name, when)
            subprocess.run(["rm", "-rf", self.fault.path(name)], check=True)
        print(f"{rounds} schedules, {survived} of them survived at once")

    def killed(self):
        """Kills in the middle. At most one group of commits is requested again."""
        name = self.fresh()
        self.server.script("data", "GET", SHARD, ["slow:3000000"], repeat=True)  # a late kill lets few bytes come
        memory = ["--max-memory", str(self.need())]  # then little is read ahead, and little is in flight
        process = self.fault.start(self.command(name, *memory), env=self.environment())
        journal = self.fault.staging(name)

        def has_records():
            sizes = [os.path.getsize(os.path.join(journal, file)) for file in os.listdir(journal)
                     if file.startswith("journal")] if os.path.isdir(journal) else []
            return sum(sizes) > 600

        self.fault.expect(testing.wait_for(process, has_records, "the journal has records", pause=0.005), "it was not killed")
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        first = sum(entry.bytes_sent for entry in self.server.log(listener="data"))
        self.server.reset()
        done = self.fault.check(self.run(name, "--resume", "--json"))
        self.expect_same(name, "killed and resumed")
        second = sum(entry.bytes_sent for entry in self.server.log(listener="data"))
        print(f"killed after {first} bytes, {second} more when resumed: {json.loads(done.stdout)['skipped_bytes']} were done")
        self.fault.expect(json.loads(done.stdout)["skipped_bytes"] > 0, "nothing was skipped")
        twice = first + second - os.path.getsize(self.fault.path("source/model.safetensors")) - 2 * (128 << 10)  # the headers
        self.fault.expect(twice <= 6_600_000, f"{twice} bytes came again, and a group of commits is of 6600000")

    def arrived(self):
        """Kills before the journal has any record. What came over the network isn't requested again, except a damaged part."""
        name = self.fresh()
        # Bytes are kept after 0.1 s. Until then, little comes.
        limits = LIMITS.replace("request_bytes=330000", "request_bytes=660000") + ",commit_ms=250"
        self.server.script("data", "GET", SHARD, ["slow:300000"], repeat=True)
        process = self.fault.start(self.command(name, limits=limits), env=self.environment())
        staging = self.fault.staging(name)

        def kept_files():
            return [os.path.join(staging, file) for file in sorted(os.listdir(staging)) if file.startswith("arrived.0-1.")]

        def kept():
            return sum(os.path.getsize(file) for file in kept_files()) if os.path.isdir(staging) else 0

        self.fault.expect(testing.wait_for(process, lambda: kept() > 1_000_000, "bytes are kept"), "nothing was kept")
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        size = kept()
        with open(kept_files()[0], "r+b") as file:
            file.seek(1000)
            byte = file.read(1)
            file.seek(1000)
            file.write(bytes([byte[0] ^ 1]))
        self.server.reset()
        done = self.fault.check(subprocess.run(self.command(name, "--resume", limits=limits), capture_output=True, text=True,
                                               check=False, env=self.environment()))
        self.fault.expect("have arrived" in done.stderr, done.stderr)
        self.expect_same(name, "killed before a record, and resumed")
        second = sum(entry.bytes_sent for entry in self.server.log(listener="data"))
        whole = os.path.getsize(self.fault.path("source/model.safetensors")) + (128 << 10)  # the header
        print(f"killed with {size} bytes kept of {whole}; {second} came when resumed")
        damaged = 256 << 10  # a record, at most
        self.fault.expect(second + size <= 1.01 * whole + damaged, f"{second} bytes of {whole} came, and {size} were kept")

    def direct(self):
        """Checks a hub that sends weights itself, as mirrors do: another ETag ends the run."""
        repo = self.server.add("org/direct", {"main": self.fault.path("source")}, kinds={SHARD: "A"})
        for faults, words in ((["ok"], ""), (["ok", "ok", "etag:0123"], "the file changed while hfshard read it")):
            name = self.fresh()
            self.server.script("hub", "GET", SHARD, faults)
            done = self.run(name, source=repo.id)
            self.fault.expect((done.returncode == 0) == (words == ""), f"direct, {faults}: {done.stderr}")
            self.fault.expect(words in " ".join(done.stderr.split()), f"direct, {faults}: {done.stderr}")
            self.server.faults.clear()
            self.fault.check(self.run(name, "--resume", source=repo.id))
            self.expect_same(name, f"direct, {faults}")
        self.fault.expect(not self.server.log(listener="data"), "the data host was asked")

    def complete(self):
        """Checks that --resume of a complete output of this commit reads no file again but for headers."""
        name = self.fresh()
        self.fault.check(self.run(name))
        self.server.reset()
        self.fault.check(self.run(name, "--resume"))
        self.expect_same(name, "complete and resumed")
        again = [entry for entry in self.server.log() if "tokenizer.json" in entry.path and entry.method == "GET" and entry.bytes_sent]
        self.fault.expect(not again, f"the tokenizer was read again: {again}")
        sent = sum(entry.bytes_sent for entry in self.server.log(listener="data"))
        self.fault.expect(sent <= 128 << 10, f"{sent} bytes were read again")
        print(f"complete and resumed: {sent} bytes")

    def interrupted(self):
        """Interrupts while nothing comes for ten minutes. hfshard must end long before, in the middle of a file, before
        the first data, and while it asks the hub. It says truly whether it kept data. Then it resumes."""
        for when, (listener, pattern, faults) in {"data": ("data", SHARD, ["ok"] * 20 + ["stall:1000:600"] * 40),
                                                  "first data": ("data", SHARD, ["ok"] + ["stall:1000:600"] * 60),
                                                  "listing": ("hub", API, ["hang:600"])}.items():
            name = self.fresh()
            self.server.script(listener, "GET", pattern, faults)
            process = self.fault.start(self.command(name), env=self.environment(HF_HUB_DOWNLOAD_TIMEOUT="600"))
            testing.wait_for(process, lambda fault=faults[-1]: any(entry.fault == fault for entry in self.server.requests.begun()),
                             f"the request of {when} that hangs")
            os.killpg(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=testing.HANG_SECONDS)
            self.fault.expect(process.returncode == 130, f"{when}: {process.returncode}: {err}")
            self.fault.expect(self.fault.tree(name) is None, f"{when}: something was published")
            self.server.reset()
            resumed = self.fault.check(self.run(name, "--resume")).stderr
            kept = "kept everything written so far" in err
            self.fault.expect(kept == ("note: resuming" in resumed), f"{when}: {err}\nresumed: {resumed}")
            if when == "first data":
                self.fault.expect("hfshard kept nothing" in err and "--resume" not in err, f"{when}: {err}")
            self.expect_same(name, f"interrupted ({when}) and resumed")

    def interrupted_early(self):
        """Interrupts before bytes are kept of themselves. What the open requests got is kept then."""
        name = self.fresh()
        limits = LIMITS.replace("request_bytes=330000", "request_bytes=660000") + ",commit_ms=100000000"
        fault = "stall:200000:600"
        self.server.script("data", "GET", SHARD, ["ok", *[fault] * 60])  # the header comes
        process = self.fault.start(self.command(name, limits=limits), env=self.environment(HF_HUB_DOWNLOAD_TIMEOUT="600"))
        testing.wait_for(process, lambda: any(entry.fault == fault for entry in self.server.requests.begun()), "a request that hangs")
        testing.wait_for(process, lambda: testing.stays(lambda: is_idle(process.pid)), "the end of what comes")
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=testing.HANG_SECONDS)
        self.fault.expect(process.returncode == 130 and "kept everything written so far" in err, f"{process.returncode}: {err}")
        self.server.reset()
        done = self.fault.check(subprocess.run(self.command(name, "--resume", limits=limits), capture_output=True, text=True,
                                               check=False, env=self.environment()))
        self.fault.expect("have arrived" in done.stderr, done.stderr)
        self.expect_same(name, "interrupted early and resumed")

    def fuzzed(self, rounds):
        """Sends random listings, headers and redirects. They give an error, never a crash, and the token stays with
        the hub."""
        random = self.fault.random
        listing = json.dumps([{"type": "file", "path": "config.json", "size": 300, "oid": "0" * 40},
                              {"type": "file", "path": "model.safetensors", "size": 79721072, "oid": "1" * 40,
                               "lfs": {"oid": "2" * 64, "size": 79721072, "pointerSize": 134}}])
        pieces = ['"', "[", "]", "{", "}", ":", ",", "-1", "1e999", "18446744073709551616", "null", "true", "..", "/etc/passwd", "\\",
                  "\\u0000", "config.json", "0.5", " ", "\u202e", '"path"', '"size"', '"lfs"']
        numbers = ["0", "-1", "1", "79721072", "79721073", "99999999999999999999", "*", "", "a", "bytes", " "]

        def mutated(text):
            for _ in range(random.randint(1, 6)):
                at = random.randrange(len(text) + 1)
                text = text[:at] + random.choice(pieces) + text[at + random.choice((0, 0, 1, 5, 60)):]
            return text.replace("+", "")

        def fault():
            kind = random.randrange(5)
            if kind == 0:
                return "hub", "*/tree/*", "status:200+body:" + mutated(listing)
            if kind == 1:
                return "hub", API, "status:200+body:" + mutated('{"sha": "' + "a" * 40 + '", "siblings": []}')
            if kind == 2:
                place = random.choice(["http://", "https://", "//", "/", "file:///", "", "http://127.0.0.2:1/", "http://[", "\t", "?"])
                return "hub", "*", "redirect:" + place + mutated("org/model/resolve").replace("\r", "").replace("\n", "")
            if kind == 3:
                name = random.choice(["X-Linked-Size", "X-Linked-Etag", "X-Repo-Commit", "ETag", "Content-Encoding", "Location", "Link"])
                return "hub", "*", f"header:{name}=" + random.choice(numbers + ["<", '<x>; rel="next"', "//", "0" * 5000])
            text = f"bytes {random.choice(numbers)}-{random.choice(numbers)}/{random.choice(numbers)}"
            return "data", SHARD, f"header:{random.choice(['Content-Range', 'Content-Length', 'Content-Type'])}={text}"

        statuses = {}
        for number in range(rounds):
            self.server.reset()
            for _ in range(random.randint(1, 3)):
                listener, pattern, text = fault()
                self.server.script(listener, "GET", pattern, [text], repeat=random.random() < 0.5)
            done = subprocess.run(self.fault.command("plan", MODEL, "--retry-ms", "1"), capture_output=True, text=True, check=False,
                                  errors="replace", env=self.environment(HF_HUB_DOWNLOAD_TIMEOUT="1"), timeout=testing.HANG_SECONDS)
            when = f"fuzzed {number} of seed {self.fault.arguments.seed}"
            self.fault.expect(done.returncode in (0, 3, 4), f"{when}: status {done.returncode}: {self.said(done)}")
            self.fault.expect(done.returncode == 0 or "error [" in done.stderr, f"{when}: {self.said(done)}")
            self.expect_no_token(when, done)
            self.fault.expect(not any(violation.kind.startswith("authorization") for violation in self.server.violations()),
                              f"{when}: {self.server.violations()[:2]}")
            statuses[done.returncode] = statuses.get(done.returncode, 0) + 1
        print(f"{rounds} fuzzed answers: {statuses}")

    def workers(self):
        """Checks that all workers together request each byte of data once."""
        name = self.fresh()
        started = [self.fault.start(self.command(name, "--worker", f"{number}/3"), env=self.environment()) for number in range(3)]
        for process in started:
            out, err = process.communicate()
            self.fault.expect(process.returncode == 0, f"a worker: {out}{err}")
        sent = sum(entry.bytes_sent for entry in self.server.log(listener="data"))
        done = subprocess.run(self.fault.command("finalize", self.fault.path(name), "--retry-ms", "20", "--limits", LIMITS),
                              capture_output=True, text=True, check=False, env=self.environment())
        self.fault.check(done)
        self.expect_same(name, "three workers")
        size = sum(os.path.getsize(self.fault.path(f"source/{file}")) for file in os.listdir(self.fault.path("source")))
        # Each worker reads the 128 KiB of every header.
        self.fault.expect(sent <= 1.03 * size + 3 * (128 << 10), f"three workers got {sent} bytes of {size}")
        print(f"three workers: {sent} bytes of {size}")

    def people(self):
        """Checks that errors about missing or restricted models say what to do."""
        other = self.server.add("org/gated", {"main": self.fault.path("source")})
        other.gated = "auto"
        hidden = self.server.add("org/hidden", {"main": self.fault.path("source")})
        hidden.private = True
        self.repo.tag("v1.0")
        for number in range(20):
            self.repo.tag(f"step{number}")
        for name in ("Tiny-8B", "Tiny-8B-Instruct", "Tiny-14B"):
            self.server.add("makers/" + name, {"main": self.fault.path("source")})
        self.server.add("makers/Tiny-8c", {"main": self.fault.path("source")}).private = True
        self.server.add("org/notes", {"main": {"README.md": b"# notes"}})
        self.server.add("org/old", {"main": {"config.json": b"{}", "pytorch_model.bin": b"PK"}})
        said = {
            ("org/gated", ()): ("is gated", "open "),
            ("org/hidden", ()): ("or it is private", "HF_TOKEN"),
            ("org/none", ()): ("isn't a model on", "check the name"),
            ("makers/Tiny-8D", ()): ("isn't a model on", "did you mean makers/Tiny-8B, makers/Tiny-14B? check the name"),
            ("makers/Tiny-8D", ("--revision", "main")): ("isn't a model on", "did you mean makers/Tiny-8B, makers/Tiny-14B? check the name"),
            ("others/tiny-8b", ()): ("isn't a model on", "did you mean makers/Tiny-8B, makers/Tiny-8B-Instruct? check the name"),
            (MODEL, ("--revision", "nobody")): ("has no revision", "pass one of main, step0, step1, step10, step11, step12, step13, step14"),
            (MODEL, ("--revision", "v1.O")): ("has no revision", "did you mean v1.0?"),
            ("org/none", ("--revision", "main")): ("isn't a model on", "check the name"),
            (MODEL, ("--revision", "a..b")): ("revision", ""),
            ("org/notes", ()): ("no safetensors file", ""),
            ("org/old", ()): (".bin", ""),
            ("hf://datasets/org/x", ()): ("in datasets", ""),
        }
        for (source, options), words in said.items():
            done = self.run(self.fresh(), *options, source=source, HF_TOKEN="")
            text = " ".join(done.stderr.split())
            self.fault.expect(done.returncode in (2, 3, 4) and all(word in text for word in words), f"{source}: {text}")
        bad = self.run(self.fresh(), HF_TOKEN="hf_of_nobody")
        self.fault.expect(bad.returncode == 3 and "error [access]" in bad.stderr, bad.stderr)
        self.fault.expect("HF_TOKEN" in bad.stderr and "hf_of_nobody" not in self.said(bad), bad.stderr)
        # The error says that a login has expired.
        os.makedirs(self.fault.path("hf_home"))
        with open(self.fault.path("hf_home/token"), "w", encoding="ascii") as file:
            file.write("hf_of_yesterday\n")
        for ends, words in ((1, True), (4_000_000_000, False)):
            with open(self.fault.path("hf_home/stored_tokens"), "w", encoding="ascii") as file:
                file.write("[other]\nhf_token = hf_of_another\nexpires_at = 1\n\n[mine]\nhf_token = hf_of_yesterday\n"
                           f"refresh_token = hf_r\nexpires_at = {ends}\n\n")
            old = self.run(self.fresh(), HF_TOKEN="")
            self.fault.expect(("it has expired: run hf auth whoami to renew it" in " ".join(old.stderr.split())) == words, old.stderr)
            self.fault.expect("hf_of" not in self.said(old) and "hf_r" not in self.said(old), "a token is printed")
        subprocess.run(["rm", "-rf", self.fault.path("hf_home")], check=True)
        print(f"{len(said) + 3} refusals for people")

    def from_the_cache(self):
        """Checks that hfshard reads a complete snapshot without the network. It uses a partial one, and streams the
        rest."""
        cache = self.fault.path("hf_home/hub")
        self.fresh()
        self.fault.check(subprocess.run(self.fault.command("fetch", MODEL, "--quiet"), capture_output=True, text=True, check=False,
                                        env=self.environment()))
        folder = os.path.join(cache, "models--org--model")
        cases = {
            "offline": (MODEL, {"HF_HUB_OFFLINE": "1"}, 0),
            "the folder by its path": (folder, {}, 0),
            "the hub is away": (MODEL, {"HF_ENDPOINT": "http://127.0.0.1:1"}, 0),
            "the hub in trouble": (MODEL, {}, 0),
            "online": (MODEL, {}, 0),
        }
        for when, (source, more, data) in cases.items():
            name = self.fresh()
            if when == "the hub in trouble":
                self.server.script("hub", "GET", "*", ["status:503"], repeat=True)
            done = self.fault.check(self.run(name, source=source, **more))
            self.expect_same(name, f"from the cache: {when}")
            self.fault.expect(len(self.server.log(listener="data")) == data, f"{when}: the data host was asked")
            if when not in ("online", "the hub in trouble"):
                self.fault.expect(not self.server.log(), f"{when}: the hub was asked")
            self.fault.expect("from the cache" in done.stderr or when == "online", f"{when}: {done.stderr}")
        # One worker has the cache, and one doesn't. The sources are the same.
        name = self.fresh()
        self.fault.check(self.run(name, "--worker", "0/2"))
        self.fault.check(self.run(name, "--worker", "1/2", HF_HUB_CACHE=self.fault.path("no_cache")))
        self.fault.check(subprocess.run(self.fault.command("finalize", self.fault.path(name), "--limits", LIMITS),
                                        capture_output=True, text=True, check=False, env=self.environment()))
        self.expect_same(name, "one worker of two has a cache")
        # Without the listing, the names of blobs identify them.
        name = self.fresh()
        self.fault.check(self.run(name, "--worker", "0/2", HF_HUB_CACHE=self.fault.path("no_cache")))
        os.rename(os.path.join(folder, "trees"), os.path.join(folder, "trees.away"))
        self.fault.check(self.run(name, "--worker", "1/2", HF_HUB_OFFLINE="1"))
        os.rename(os.path.join(folder, "trees.away"), os.path.join(folder, "trees"))
        # A missing blob is streamed. Offline, the error names it.
        blob = os.path.realpath(os.path.join(folder, "snapshots", os.listdir(os.path.join(folder, "snapshots"))[0],
                                             "model.safetensors"))
        os.rename(blob, blob + ".away")
        name = self.fresh()
        self.fault.check(self.run(name))
        self.expect_same(name, "a part of a snapshot")
        self.fault.expect(self.server.log(listener="data"), "nothing was streamed")
        done = self.run(self.fresh(), HF_HUB_OFFLINE="1")
        self.fault.expect(done.returncode == 3 and "model.safetensors" in done.stderr, done.stderr)
        subprocess.run(["rm", "-rf", self.fault.path("hf_home")], check=True)
        print(f"{len(cases) + 2} ways through the cache")

    def keep_files(self):
        """Runs --keep-files. Then the cache has the model, each byte came once, and the bytes were compared."""
        files = {}
        for name in os.listdir(self.fault.path("source")):
            with open(self.fault.path(f"source/{name}"), "rb") as file:
                files[name] = file.read()
        copies = {"pytorch_model.bin": b"PK" * 5000, "original/consolidated.00.pth": b"PK" * 5000}
        self.server.add("org/kept", {"main": {**files, **copies}})
        name = self.fresh()
        done = self.fault.check(self.run(name, "--keep-files", "--json", source="org/kept"))
        self.expect_same(name, "kept")
        self.expect_clean("kept")
        network = json.loads(done.stdout)["network"]
        size = sum(len(data) for data in files.values())
        sent = sum(entry.bytes_sent for entry in self.server.log(listener="data"))
        self.fault.expect(network["unchecked_bytes"] == network["used_bytes"] == 0, f"kept: {network}")
        self.fault.expect(sent <= size, f"kept: {sent} bytes were sent of {size}")
        self.fault.expect("19.5 KiB of weights in other formats stay" in done.stderr, done.stderr)
        snapshots = os.path.join(self.fault.path("hf_home/hub"), "models--org--kept", "snapshots")
        snapshot = os.path.join(snapshots, os.listdir(snapshots)[0])
        self.fault.expect(sorted(os.listdir(snapshot)) == sorted(files), f"kept: {os.listdir(snapshot)}")
        for file, data in files.items():
            with open(os.path.join(snapshot, file), "rb") as kept:
                self.fault.expect(kept.read() == data, f"kept: {file} is another")
        name = self.fresh()
        self.fault.check(self.run(name, source="org/kept", HF_HUB_OFFLINE="1"))
        self.expect_same(name, "kept, offline")
        self.fault.expect(not self.server.log(), "kept, offline: the hub was asked")
        # hfshard finds a flipped bit, and doesn't convert any of it.
        subprocess.run(["rm", "-rf", self.fault.path("hf_home")], check=True)
        name = self.fresh()
        self.server.script("data", "GET", SHARD, ["ok", "flip:100"])
        done = self.run(name, "--keep-files", source="org/kept")
        self.fault.expect(done.returncode == 3 and "and the Hub lists" in " ".join(done.stderr.split()), self.said(done))
        self.fault.expect(self.fault.tree(name) is None, "a flipped bit was published")
        # Weights of torch.save are kept if there are no others. Here they can't be read.
        self.server.add("org/other", {"main": {"pytorch_model.bin": b"PK" * 5000, "model.onnx": b"O" * 5000}})
        done = self.run(self.fresh(), "--keep-files", source="org/other")
        self.fault.expect(done.returncode == 3 and "4.88 KiB of weights in other formats stay" in done.stderr, self.said(done))
        snapshots = os.path.join(self.fault.path("hf_home/hub"), "models--org--other", "snapshots")
        kept = os.listdir(os.path.join(snapshots, os.listdir(snapshots)[0]))
        self.fault.expect(kept == ["pytorch_model.bin"], f"kept of torch: {kept}")
        done = self.run(self.fresh(), "--keep-files", source=self.fault.path("source"))
        self.fault.expect(done.returncode == 2 and "--keep-files requires a Hub model" in done.stderr, self.said(done))
        subprocess.run(["rm", "-rf", self.fault.path("hf_home")], check=True)
        print(f"kept: {sent} bytes were sent of {size}")

    def linked(self):
        """Runs `link` without the files. The index comes from headers, and lists awaited files. It's complete once
        they are fetched."""
        name = self.fresh()
        link = self.fault.command("link", MODEL, self.fault.path(name), "--retry-ms", "20", "--limits", LIMITS)

        def run(command, status=0):
            return self.fault.check(subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment()),
                                    status)

        refused = run([*link, "--digests"], 3)
        self.fault.expect("pass --keep-files to fetch the model first" in " ".join(refused.stderr.split()), refused.stderr)
        self.server.reset()
        done = run(link)
        self.expect_clean("linked")
        self.fault.expect("awaits    1 file" in done.stdout, done.stdout)
        fetch = done.stdout.split("hfshard fetch ")[1].split("\n")[0]
        sent = sum(entry.bytes_sent for entry in self.server.log(listener="data"))
        size = os.path.getsize(self.fault.path("source/model.safetensors"))
        self.fault.expect(sent < size / 10, f"linked: {sent} bytes were sent of {size}")
        out = self.fault.path(name)
        for command in (["verify", out], ["inspect", out, "--data"]):
            told = subprocess.run(self.fault.command(*command), capture_output=True, text=True, check=False)
            self.fault.expect(told.returncode not in (0, 70) and "isn't in the cache yet" in " ".join(told.stdout.split() + told.stderr.split()),
                              f"{command}: {told.returncode} {self.said(told)}")
        run(self.fault.command("fetch", fetch, "--quiet"))
        run(self.fault.command("verify", out))
        run(self.fault.command("inspect", out, "--data"))
        run(self.fault.command("verify", out, self.fault.path("source")))
        subprocess.run(["rm", "-rf", self.fault.path("hf_home")], check=True)
        print(f"linked: {sent} bytes were sent of {size}")

    def odd_path(self):
        """Checks that hfshard skips a path in a listing that leaves the model, and reads the rest."""
        commit = self.repo.branches["main"]
        self.fresh()
        entries, page = [], f"{self.server.endpoint}/api/models/{MODEL}/tree/{commit}?recursive=true"
        while page:
            with urllib.request.urlopen(page) as answer:
                entries += json.load(answer)
                page = answer.headers.get("Link", "<>").split("<")[1].split(">")[0]
        entries.insert(1, {"type": "file", "path": "../../up", "size": 3, "oid": "0" * 40})
        name = self.fresh()
        self.server.script("hub", "GET", "*/tree/*", ["status:200+body:" + json.dumps(entries)])
        done = self.fault.check(self.run(name))
        self.fault.expect('leaves out "../../up"' in done.stderr, done.stderr)
        self.expect_same(name, "an odd path")

    def first_layers(self):
        """Checks that the first layers' model requests only its own bytes."""
        local = self.fault.run("convert", self.fault.path("source"), self.fault.path("few"), "--num-layers", "2", "--json")
        name = self.fresh()
        done = self.fault.check(self.run(name, "--num-layers", "2", "--json"))
        size = json.loads(local.stdout)["source_bytes"]
        sent = sum(entry.bytes_sent for entry in self.server.log(listener="data"))
        self.expect_clean("first layers")
        print(f"first layers: {sent} bytes were sent of {size}: {json.loads(done.stdout)['network']}")
        self.fault.expect(sent <= 1.05 * size + (128 << 10), f"first layers: {sent} bytes of {size}")
        whole = os.path.getsize(self.fault.path("source/model.safetensors"))
        self.fault.expect(size < 0.7 * whole, f"first layers: {size} bytes of {whole} show nothing")

    def moved_branch(self):
        """Checks that a revision becomes a commit once. A branch that moves meanwhile is another source, and hfshard
        says so."""
        name = self.fresh()
        first = self.fault.check(self.run(name, "--worker", "0/2"))
        asked = [entry for entry in self.server.log(listener="hub") if not ("/resolve/" in entry.path or "/tree/" in entry.path)]
        self.fault.expect(len(asked) == 1, f"the commit was asked for {len(asked)} times")
        commit = first.stderr.split("reading commit ")[1].split()[0]
        self.fault.expect(all(commit in entry.path for entry in self.server.log(listener="hub") if entry not in asked),
                          "a later request is not of the commit")
        shard = self.fault.path("source/model.safetensors")
        with open(shard, "rb") as file:
            data = bytearray(file.read())
        data[-1] ^= 1
        os.makedirs(self.fault.path("moved"))
        for file in os.listdir(self.fault.path("source")):
            if file != "model.safetensors":
                os.link(self.fault.path(f"source/{file}"), self.fault.path(f"moved/{file}"))
        with open(self.fault.path("moved/model.safetensors"), "wb") as file:
            file.write(data)
        self.repo.commit(self.fault.path("moved"), "main")
        second = self.run(name, "--worker", "1/2")
        self.fault.expect(second.returncode == 3 and "error [conflict]" in second.stderr, self.said(second))
        self.fault.check(self.run(name, "--worker", "1/2", "--revision", commit))
        done = subprocess.run(self.fault.command("finalize", self.fault.path(name), "--limits", LIMITS), capture_output=True,
                              text=True, check=False, env=self.environment())
        self.fault.check(done)
        self.expect_same(name, "two workers, and a branch that moved")
        self.repo.commit(self.fault.path("source"), "main")

def main():
    with harness.Fault(__doc__.split("\n", maxsplit=1)[0], CONFIG) as fault:
        stream = Stream(fault)
        with stream.server:
            stream.plain()
            stream.least_memory()
            stream.survived()
            stream.refused()
            stream.killed()
            stream.arrived()
            stream.direct()
            stream.complete()
            stream.interrupted()
            stream.interrupted_early()
            stream.fuzzed(2 * fault.arguments.rounds)
            stream.workers()
            stream.people()
            stream.from_the_cache()
            stream.keep_files()
            stream.linked()
            stream.odd_path()
            stream.first_layers()
            stream.moved_branch()
            stream.at_random(fault.arguments.rounds)
    print("PASS")


if __name__ == "__main__":
    main()
