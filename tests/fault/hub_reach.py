#!/usr/bin/env python3
"""Checks that hfshard reaches the hub like the Python client, with every command, or that the error names the obstacle.

The obstacles are unknown names, untrusted certificates, and proxies that pass requests or refuse them. The tree is the
local one. Or the error names the host, nothing is published, and --resume gives the tree. Each command that takes a
source also takes a model.
"""

import json
import os
import shutil
import subprocess
import tempfile

import harness
import testing  # (found by harness)
from hub_stream import CONFIG, MODEL, SHARD, TOKEN, Stream

import hub  # (the same)
from hub.proxy import Proxy
from hub.tls import Tls

# A label that is too long, so that no name server is asked for it.
NOBODY = "x" * 70 + ".invalid"
# Lets proxies be used.
PROXIES = {"no_proxy": "", "NO_PROXY": ""}
# The largest size of the source's headers, config and listing.
HEADS_BYTES = 400_000


class Reach:
    def __init__(self, fault, stream):
        self.fault, self.stream, self.server = fault, stream, stream.server

    def expect_refused(self, when, words, name, **environment):
        done = self.stream.run(name, **environment)
        said = " ".join(done.stderr.split())
        self.fault.expect(done.returncode == 4 and all(word in said for word in words), f"{when}: {done.returncode}: {said}")
        self.fault.expect(self.fault.tree(name) is None, f"{when}: something was published")
        self.stream.expect_no_token(when, done)

    def resumed(self, when, name, **environment):
        self.server.faults.clear()
        self.fault.check(self.stream.run(name, "--resume", **environment))
        self.stream.expect_same(name, f"{when}, and resumed")

    def names(self):
        name = self.stream.fresh()
        self.expect_refused("a hub that nobody knows", [NOBODY, "HF_HUB_OFFLINE"], name, HF_ENDPOINT=f"http://{NOBODY}:1")
        self.resumed("a hub that nobody knows", name)
        name = self.stream.fresh()
        self.server.script("data", "GET", SHARD, ["ok"] * 20)
        self.server.script("data", "GET", SHARD, [f"redirect:http://{NOBODY}/file"], repeat=True)
        self.expect_refused("a data host that nobody knows", [NOBODY, "model.safetensors", "bytes "], name)
        self.resumed("a data host that nobody knows", name)

    def certificates(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            with hub.Hub(tls=Tls(folder)) as server:
                server.tokens = {TOKEN: "tester"}
                server.add(MODEL, {"main": self.fault.path("source")})
                name = self.stream.fresh()
                self.expect_refused("an unknown authority", ["certificate", "127.0.0.1"], name, HF_ENDPOINT=server.endpoint)
                self.expect_refused("another authority", ["certificate"], name, HF_ENDPOINT=server.endpoint,
                                    SSL_CERT_FILE=Tls(other).ca_file)
                self.fault.expect(not server.log(), "a hub was asked whose certificate is not good")
                self.resumed("with its authority", name, HF_ENDPOINT=server.endpoint, SSL_CERT_FILE=server.ca_file)
                for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
                    plan = self.fault.command("plan", MODEL)
                    self.fault.check(subprocess.run(plan, capture_output=True, text=True, check=False, env=self.stream.environment(
                        HF_ENDPOINT=server.endpoint, **{variable: server.ca_file})))
        with tempfile.TemporaryDirectory() as folder, hub.Hub(tls=Tls(folder, "subjectAltName=DNS:elsewhere")) as server:
            server.add(MODEL, {"main": self.fault.path("source")})
            self.expect_refused("a certificate of another name", ["certificate"], self.stream.fresh(),
                                HF_ENDPOINT=server.endpoint, SSL_CERT_FILE=server.ca_file)

    def proxies(self):
        with tempfile.TemporaryDirectory() as folder, hub.Hub(tls=Tls(folder)) as server:
            server.tokens = {TOKEN: "tester"}
            server.add(MODEL, {"main": self.fault.path("source")})
            secure = {"HF_ENDPOINT": server.endpoint, "SSL_CERT_FILE": server.ca_file, **PROXIES}
            for variable in ("https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
                with Proxy() as proxy:
                    name = self.stream.fresh()
                    self.fault.check(self.stream.run(name, **secure, **{variable: proxy.url}))
                    self.stream.expect_same(name, f"through {variable}")
                    wanted = {f"127.0.0.1:{server.hub.port}", f"localhost:{server.data.port}"}
                    self.fault.expect(set(proxy.hosts) == wanted, f"{variable}: {set(proxy.hosts)} were asked")
                    self.fault.expect(not any(TOKEN.encode() in head for head in proxy.heads), f"{variable}: the proxy saw the token")
            with Proxy() as proxy:
                name = self.stream.fresh()
                self.fault.check(self.stream.run(name, **{**secure, "no_proxy": "127.0.0.1,localhost"}, https_proxy=proxy.url))
                self.fault.expect(not proxy.hosts, "no_proxy: the proxy was asked")
            for status in (400, 407):
                with Proxy(refuses=status) as proxy:
                    name = self.stream.fresh()
                    self.expect_refused("a proxy that refuses", [str(status)], name, **secure, https_proxy=proxy.url)
                    self.fault.expect(len(proxy.heads) == 1, f"{status}: the proxy was asked {len(proxy.heads)} times")
                self.resumed("a proxy that refuses", name, HF_ENDPOINT=server.endpoint, SSL_CERT_FILE=server.ca_file)
            self.expect_refused("a proxy that is away", ["127.0.0.1"], self.stream.fresh(), **secure,
                                https_proxy="http://127.0.0.1:1")
        with Proxy() as proxy:
            name = self.stream.fresh()
            self.fault.check(self.stream.run(name, **PROXIES, http_proxy=proxy.url))
            self.stream.expect_same(name, "through http_proxy")
            self.fault.expect(len(proxy.heads) >= len(self.server.log()) > 0, "some requests did not go through http_proxy")

    def connections(self):
        """If each connection is slow, hfshard opens more of them, up to 32."""
        for when, faults, least, most in (("each is slow", ["slow:500000"], 8, 32), ("none is slow", ["ok"], 1, 32)):
            name = self.stream.fresh()
            self.server.script("data", "GET", SHARD, faults, repeat=True)
            self.fault.check(self.stream.run(name))
            self.stream.expect_same(name, when)
            data = self.server.log(listener="data")
            changes = sorted([(entry.at_seconds, 1) for entry in data] + [(entry.at_seconds + entry.seconds, -1) for entry in data])
            at_once, peak = 0, 0
            for _, change in changes:
                at_once += change
                peak = max(peak, at_once)
            used = len({entry.connection for entry in data})
            print(f"{when}: {used} connections, {peak} at once, {changes[-1][0]:.1f} s")
            self.fault.expect(least <= peak <= most, f"{when}: {peak} at once")

    def commands(self):
        """Every command that takes a source also takes a model. Commands that need only headers request only
        headers."""
        self.fault.check(self.stream.run("converted"))
        out, local = self.fault.path("converted"), self.fault.path("source")
        few = [["plan", MODEL], ["plan", MODEL, "--link"], ["inspect", MODEL], ["mappings", "check", MODEL],
               ["convert", MODEL, self.fault.path("dry"), "--dry-run"]]
        whole = [["verify", out, MODEL], ["diff", MODEL, local], ["diff", MODEL, out],
                 ["convert", f"{self.server.endpoint}/{MODEL}", self.fault.path("by its url")],
                 ["convert", f"hf://{MODEL}@main", self.fault.path("by its uri"), "--to", "safetensors"]]
        for words in few + whole:
            self.server.reset()
            done = subprocess.run(self.fault.command(*words), capture_output=True, text=True, check=False,
                                  env=self.stream.environment())
            when = " ".join(words)
            self.fault.expect(done.returncode == 0, f"{when}: {done.returncode}: {self.stream.said(done)}")
            sent = sum(entry.bytes_sent for entry in self.server.log())
            self.fault.expect(sent < HEADS_BYTES if words in few else sent > HEADS_BYTES, f"{when}: {sent} bytes were sent")
            self.stream.expect_clean(when)
            self.stream.expect_no_token(when, done)
        self.fault.expect(self.fault.tree("dry") is None, "--dry-run wrote something")
        print(f"{len(few) + len(whole)} commands")

    def kept_in_memory(self):
        """Runs --keep-files on a model larger than --max-memory. At most the remaining memory is in flight. Libraries,
        threads and connections differ from machine to machine, so the same run of a small model also gives a bound."""
        large = self.fault.path("large.dat")
        with open(large, "wb") as file:
            file.truncate(400 << 20)
        files = {name: self.fault.path(f"source/{name}") for name in os.listdir(self.fault.path("source"))}
        self.server.add("org/large", {"main": {**files, "large.dat": large}})
        most = max(self.stream.need(), 96 << 20)
        peaks = []
        for source in (MODEL, "org/large"):
            name = self.stream.fresh()
            command = self.stream.command(name, "--keep-files", "--quiet", "--max-memory", str(most), source=source)
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=self.stream.environment())
            with testing.Watch(process) as watched:
                status = watched.wait()
            self.fault.expect(status == 0, f"kept: {source}: status {status}")
            self.stream.expect_same(name, f"kept in memory: {source}")
            shutil.rmtree(self.fault.path("hf_home"))
            peaks.append(watched.peak_bytes)
        print(f"kept: {peaks[1] >> 20} MiB of memory of {most >> 20}; {peaks[0] >> 20} with a small model")
        self.fault.expect(peaks[1] <= max(most, peaks[0] + (32 << 20)), f"kept: {peaks[1]} bytes of memory, and {most} are allowed")

    def mini_models(self):
        """Converts the first layers of each family's example. The tree is the local one, with no more bytes of data
        than needed."""
        listed = self.fault.run("mappings", "list", "--json").stdout
        known = json.loads(listed)["families"]
        for family in [one["name"] for one in known if "maxtext" in one["schemes"]]:
            source = self.fault.path(f"example of {family}")
            self.fault.run("mappings", "example", family, source, "--quiet")
            for layers in range(1, 20):  # the fewest that MaxText has
                name = f"{family} of {layers}"
                local = subprocess.run(self.fault.command("convert", source, self.fault.path(f"local {name}"), "--num-layers", str(layers),
                                                          "--json"), capture_output=True, text=True, check=False)
                if local.returncode == 0:
                    break
                self.fault.expect(local.returncode == 2, f"{name}: {self.stream.said(local)}")
            self.fault.expect(local.returncode == 0, f"{name}: no number of layers fits")
            self.server.reset()
            self.server.add(f"org/{family}", {"main": source}, large_bytes=1)
            done = subprocess.run(self.fault.command("convert", f"org/{family}", self.fault.path(name), "--num-layers", str(layers), "--json"),
                                  capture_output=True, text=True, check=False, env=self.stream.environment())
            self.fault.check(done)
            for place in (name, f"local {name}"):
                self.stream.commit_in(place)
            self.fault.expect_same(name, self.fault.tree(f"local {name}"), name)
            used, takes = json.loads(done.stdout)["network"]["used_bytes"], json.loads(local.stdout)["source_bytes"]
            self.fault.expect(0 < used <= 1.05 * takes, f"{name}: {used} bytes were used of {takes}")
            self.stream.expect_clean(name)
        print(f"mini models of {len(known)} families")

    def codes(self):
        """Converts codes with scales, zero points or factors, in small pieces. The tree is the local one."""
        oracles = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle")
        small = ["--limits", "segment_bytes=65536,merge_bytes=16384"]
        for name in ("deepseek3-fp8", "kimi-int4", "gpt-oss-mxfp4", "mistral-fp8"):
            source = self.fault.path(name)
            shutil.copytree(os.path.join(oracles, name), source)
            self.fault.run("convert", source, self.fault.path(f"local {name}"), "--dtype", "bf16", *small, "--quiet")
            self.server.reset()
            self.server.add(f"org/{name}", {"main": source}, large_bytes=1)
            done = subprocess.run(self.fault.command("convert", f"org/{name}", self.fault.path(f"far {name}"), "--dtype", "bf16", *small, "--json"),
                                  capture_output=True, text=True, check=False, env=self.stream.environment())
            self.fault.check(done)
            for place in (f"far {name}", f"local {name}"):
                self.stream.commit_in(place)
            self.fault.expect_same(f"far {name}", self.fault.tree(f"local {name}"), name)
            used, size = json.loads(done.stdout)["network"]["used_bytes"], os.path.getsize(os.path.join(source, "model.safetensors"))
            self.fault.expect(0 < used <= 1.5 * size, f"{name}: {used} bytes were used of {size}")
            self.stream.expect_clean(name)

    def namesakes(self):
        """Checks that hfshard takes a directory with the name of a model, and says so. hf:// means the model."""
        os.makedirs(self.fault.path("here/org"))
        os.symlink(self.fault.path("source"), self.fault.path(f"here/{MODEL}"))
        for source, words, asked in ((MODEL, f"reading the directory {MODEL}; for the Hub model of this name, pass hf://{MODEL}", False),
                                     (f"hf://{MODEL}", "reading commit", True)):
            self.server.reset()
            done = self.fault.check(subprocess.run(self.fault.command("plan", source), capture_output=True, text=True, check=False,
                                                   env=self.stream.environment(), cwd=self.fault.path("here")))
            self.fault.expect(words in done.stderr and bool(self.server.log()) == asked, f"{source}: {self.stream.said(done)}")

    def without_libcurl(self):
        """Checks that hfshard loads libcurl only to read a hub. A directory doesn't need it, and for a model the
        error names the missing library."""
        folder = self.fault.path("no-libcurl")
        os.makedirs(folder)
        with open(os.path.join(folder, "libcurl.so.4"), "wb"):
            pass
        for source, status in ((self.fault.path("source"), 0), (MODEL, 3)):
            done = self.fault.check(subprocess.run(self.fault.command("plan", source), capture_output=True, text=True, check=False,
                                                   env=self.stream.environment(LD_LIBRARY_PATH=folder)), status)
            said = " ".join(done.stderr.split())
            self.fault.expect(status == 0 or ("libcurl.so.4" in said and "libcurl4" in said), f"{source}: {said}")

    def kinds(self):
        """Checks what a repository can have in addition to one set of weights."""
        with open(self.fault.path("source/model.safetensors"), "rb") as file:
            weights = file.read()
        config = json.dumps(CONFIG).encode()
        self.server.add("org/adapter", {"main": {"adapter_config.json": b'{"peft_type": "LORA"}', "adapter_model.safetensors": weights}})
        self.server.add("org/quantized", {"main": {"config.json": config, "model-q4.gguf": b"GGUF\x03"}})
        self.server.add("org/sets", {"main": {"config.json": config, "model.safetensors": weights, "consolidated.safetensors": weights}})
        for model, words in {"org/adapter": ["adapter"], "org/quantized": [".gguf"]}.items():
            done = self.stream.run(self.stream.fresh(), source=model)
            self.fault.expect(done.returncode == 3 and all(word in done.stderr for word in words), f"{model}: {self.stream.said(done)}")
        done = self.fault.check(self.stream.run(self.stream.fresh(), source="org/sets"))
        self.fault.expect('ignored (not named model*.safetensors): "consolidated.safetensors"' in " ".join(done.stderr.split()), done.stderr)
        self.server.add("org/two", {"main": {"config.json": config, "a.safetensors": weights, "b.safetensors": weights}})
        done = self.stream.run(self.stream.fresh(), source="org/two")
        self.fault.expect(done.returncode == 3 and "pass --include 'NAME*.safetensors' to select" in " ".join(done.stderr.split()), f"two sets: {self.stream.said(done)}")
        # One of several sets, without a byte of the others. OUT verifies against the model without the options.
        chosen = self.stream.fresh()
        self.fault.check(self.stream.run(chosen, "--include", "b.safetensors", source="org/two"))
        other = sum(entry.bytes_sent for entry in self.server.log(listener="data", path_has="a.safetensors"))
        self.fault.expect(other == 0, f"{other} bytes of a file that was not chosen were sent")
        self.fault.check(subprocess.run(self.fault.command("verify", self.fault.path(chosen), "org/two"), capture_output=True, text=True,
                                        check=False, env=self.stream.environment()))
        name = self.stream.fresh()
        self.fault.check(self.stream.run(name, source="hf://org/two@main/a.safetensors"))
        other = sum(entry.bytes_sent for entry in self.server.log(listener="data", path_has="b.safetensors"))
        self.fault.expect(other <= 128 << 10, f"{other} bytes of the file that was not named were sent")


def main():
    with harness.Fault(__doc__.split("\n", maxsplit=1)[0], CONFIG) as fault:
        stream = Stream(fault)
        with stream.server:
            stream.plain()
            reach = Reach(fault, stream)
            reach.names()
            reach.certificates()
            reach.proxies()
            reach.connections()
            reach.commands()
            reach.kept_in_memory()
            reach.mini_models()
            reach.codes()
            reach.namesakes()
            reach.kinds()
            reach.without_libcurl()
    print("PASS")


if __name__ == "__main__":
    main()
