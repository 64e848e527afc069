#!/usr/bin/env python3
"""Downloads from the hub of tests/support/hub with the real huggingface_hub, to check that it answers like a real hub.

It compares snapshots by branch, tag, pull request and commit. It checks listings, references, safetensors headers,
the exceptions for refused requests, and a truncated body. hfshard takes no part.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

import interop

import hub  # (found by interop)
from hub.content import LFS
from hub.tls import Tls

GOOD, STRANGE = "hf_of_a_reader", "hf_of_somebody_else"
# The client itself lets ranges of headers be encoded, and asks for a branch again and again.
SEEN_BY_NOBODY = ("authorization_on_data", "cookie_on_data", "authorization_on_stranger", "unknown_request")
ODD_NAME = "sub dir/\u00e9#?%20.txt"
BIG = "model-00002-of-00002.safetensors"


def safetensors(tensors, metadata=None):
    """Returns a file of F32 tensors: name -> count of elements. Values are seeded."""
    header, at = ({"__metadata__": metadata} if metadata else {}), 0
    for name, count in tensors.items():
        header[name] = {"dtype": "F32", "shape": [count], "data_offsets": [at, at + 4 * count]}
        at += 4 * count
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + random.Random(at).randbytes(at)


def model():
    """Returns files of a repository: two shards, one above 10 MiB, one with a header above 128 KiB, odd names, an
    empty file."""
    many = {f"model.layers.{number}.some.tensor.with.a.long.name.weight": 4 for number in range(1500)}
    shards = {"model-00001-of-00002.safetensors": safetensors(many, {"format": "pt"}),
              BIG: safetensors({"lm_head.weight": 6_000_000})}
    names = {**{name: "model-00001-of-00002.safetensors" for name in many}, "lm_head.weight": BIG}
    index = {"metadata": {"total_size": 24_024_000}, "weight_map": names}
    return {**shards, "model.safetensors.index.json": json.dumps(index).encode(), "config.json": b'{"model_type": "llama"}',
            ODD_NAME: "\u00e9t\u00e9\n".encode(), "empty.txt": b"", "sub dir/deep/tokenizer.bin": b"\0" * 5000}


class Peer:
    """One hub and a client for it. The client reads its environment when it is imported."""

    def __init__(self, folder):
        self.folder = folder
        self.server = hub.Hub()
        self.server.tokens = {GOOD: "reader", STRANGE: "somebody"}
        self.count = 0
        os.environ.update(HF_ENDPOINT=self.server.endpoint, HF_HOME=os.path.join(folder, "home"), HF_TOKEN=GOOD,
                          HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_TELEMETRY="1",
                          HF_HUB_VERBOSITY="error")
        try:
            import huggingface_hub
            import huggingface_hub.errors
        except ImportError as error:
            print(f"PEER MISSING huggingface_hub: {error}")
            sys.exit(interop.SKIP_STATUS)
        self.client = huggingface_hub
        self.errors = huggingface_hub.errors

    def cache(self):
        """Returns a new cache."""
        self.count += 1
        return os.path.join(self.folder, f"cache{self.count}")

    def download(self, path, repo="org/model", **words):
        with open(self.client.hf_hub_download(repo, path, cache_dir=self.cache(), **words), "rb") as file:
            return file.read()


def tree_of(folder):
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def check_snapshots(tool, peer, files):
    """Checks whole repositories: plain files direct and through the resolver's cache, weights as Xet and as LFS
    files."""
    for name, redirect, kinds in (("org/model", False, None), ("org/redirected", True, {"*.safetensors": LFS})):
        repo = peer.server.repos.get(name) or peer.server.add(name, {"main": files}, kinds=kinds)
        repo.plain_redirect = redirect
        cache = peer.cache()
        found = peer.client.snapshot_download(name, cache_dir=cache)
        tool.expect(tree_of(found) == files, f"{name}: a snapshot differs: {sorted(tree_of(found))}")
        tool.expect(os.path.basename(found) == repo.branches["main"], f"{name}: the snapshot is {found}")
        again = len(peer.server.log(listener="data"))
        peer.client.snapshot_download(name, cache_dir=cache)
        tool.expect(len(peer.server.log(listener="data")) == again, f"{name}: what was there is downloaded again")


def check_revisions(tool, peer, repo):
    first = repo.branches["main"]
    repo.tag("v1.0")
    second = repo.commit({"config.json": b"second", "empty.txt": None}, "main")
    third = repo.commit({"config.json": b"branch"}, "feature/x", parent=first)
    fourth = repo.commit({"config.json": b"request"}, "refs/pr/1", parent=first)
    for revision, wanted in (("main", b"second"), ("v1.0", b'{"model_type": "llama"}'), ("feature/x", b"branch"),
                             ("refs/pr/1", b"request"), (first, b'{"model_type": "llama"}'), (third, b"branch")):
        found = peer.download("config.json", revision=revision)
        tool.expect(found == wanted, f"config.json at {revision} is {found!r}")
    refs = peer.client.list_repo_refs("org/model", include_pull_requests=True)
    listed = {ref.name: ref.target_commit for ref in [*refs.branches, *refs.tags, *refs.pull_requests]}
    tool.expect(listed == {"main": second, "feature/x": third, "v1.0": first, "refs/pr/1": fourth},
                f"the references are {listed}")
    tool.expect(peer.client.model_info("org/model", revision="v1.0").sha == first, "a tag has another commit")


def check_listings(tool, peer, repo):
    commit = repo.commits[repo.tags["v1.0"]]
    listed = {entry.path: entry for entry in peer.client.list_repo_tree("org/model", recursive=True, revision="v1.0")}
    tool.expect(len(peer.server.log(path_has="cursor=")) >= 2, "the listing had one page")
    files = {path: entry for path, entry in listed.items() if hasattr(entry, "size")}
    tool.expect(set(files) == set(commit.files), f"listed are {sorted(files)}")
    tool.expect(set(listed) - set(files) == {"sub dir", "sub dir/deep"}, f"folders are {sorted(set(listed) - set(files))}")
    for path, entry in files.items():
        data = commit.files[path].content.read(0, commit.files[path].size)
        plain = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        said = entry.lfs.sha256 if entry.lfs else entry.blob_id
        wanted = hashlib.sha256(data).hexdigest() if entry.lfs else plain
        tool.expect(entry.size == len(data) and said == wanted, f"{path} is listed as {entry}")
    below = [entry.path for entry in peer.client.list_repo_tree("org/model", "sub dir", revision="v1.0")]
    tool.expect(below == ["sub dir/deep", ODD_NAME], f"below a folder are {below}")
    some = [entry.path for entry in peer.client.get_paths_info("org/model", [ODD_NAME, "none", "sub dir"], revision="v1.0")]
    tool.expect(some == [ODD_NAME, "sub dir"], f"of some paths there are {some}")
    info = peer.client.model_info("org/model", revision="v1.0", files_metadata=True)
    sizes = {file.rfilename: file.size for file in info.siblings}
    tool.expect(sizes == {path: file.size for path, file in commit.files.items()}, f"sizes are {sizes}")


def check_headers(tool, peer, files):
    found = peer.client.get_safetensors_metadata("org/model", revision="v1.0")
    tool.expect(found.sharded and len(found.files_metadata) == 2, f"shards are {list(found.files_metadata)}")
    for name, header in found.files_metadata.items():
        size = struct.unpack("<Q", files[name][:8])[0]
        wanted = json.loads(files[name][8:8 + size])
        wanted.pop("__metadata__", None)
        said = {tensor: {"dtype": info.dtype, "shape": info.shape, "data_offsets": list(info.data_offsets)}
                for tensor, info in header.tensors.items()}
        tool.expect(said == wanted, f"{name}: the headers differ")
    tool.expect(peer.server.log(listener="data", range="bytes=0-100000"), "no header was asked for by range")


def expect_error(tool, kind, what, action):
    try:
        action()
    except kind as error:
        # A subclass has another meaning: a gated repository isn't an unknown one.
        tool.expect(type(error) is kind, f"{what}: {type(error).__name__} {error}")
    except Exception as error:  # pylint: disable=broad-except
        tool.expect(False, f"{what}: {type(error).__name__} {error}")
    else:
        tool.expect(False, f"{what}: no error")


def check_refusals(tool, peer, files):
    errors, server = peer.errors, peer.server
    small = {"config.json": files["config.json"]}
    for name in ("gated", "private", "disabled"):
        repo = server.add(f"org/{name}", {"main": small})
        repo.readers = {GOOD}
        setattr(repo, name, True)
    for token in (STRANGE, False):
        expect_error(tool, errors.GatedRepoError, f"gated with {token}",
                     lambda token=token: peer.download("config.json", "org/gated", token=token))
        expect_error(tool, errors.GatedRepoError, f"auth_check of gated with {token}",
                     lambda token=token: peer.client.auth_check("org/gated", token=token))
        expect_error(tool, errors.RepositoryNotFoundError, f"private with {token}",
                     lambda token=token: peer.download("config.json", "org/private", token=token))
        expect_error(tool, errors.RepositoryNotFoundError, f"unknown with {token}",
                     lambda token=token: peer.client.snapshot_download("org/none", cache_dir=peer.cache(), token=token))
    for name in ("gated", "private"):
        tool.expect(peer.download("config.json", f"org/{name}") == small["config.json"], f"{name} with the right token")
        peer.client.auth_check(f"org/{name}")
    expect_error(tool, errors.DisabledRepoError, "disabled", lambda: peer.client.model_info("org/disabled"))
    expect_error(tool, errors.RevisionNotFoundError, "unknown revision",
                 lambda: peer.download("config.json", revision="none"))
    expect_error(tool, errors.RemoteEntryNotFoundError, "unknown file", lambda: peer.download("none.json"))
    expect_error(tool, errors.RemoteEntryNotFoundError, "unknown folder",
                 lambda: list(peer.client.list_repo_tree("org/model", "none")))
    expect_error(tool, errors.HfHubHTTPError, "a token that is none",
                 lambda: peer.client.model_info("org/model", token="hf_invalid"))
    server.rename("org/old", "org/model")
    tool.expect(peer.download("config.json", "org/old") == b"second", "a renamed repository")
    tool.expect(peer.client.model_info("org/old").id == "org/model", "the info of a renamed repository")


def check_faults(tool, peer, files):
    """Checks faults. The client sees truncations only at steps of 10 MiB, so one file is larger."""
    server, big = peer.server, files[BIG]
    server.reset()
    server.script("data", "GET", f"*/{BIG}", [f"cut:{15 << 20}", "ok"])
    tool.expect(peer.download(BIG, revision="v1.0") == big, "after a cut the file differs")
    asked = [(entry.range, entry.status) for entry in server.log(listener="data")]
    tool.expect(asked == [("", 200), (f"bytes={10 << 20}-", 206)], f"after a cut there were {asked}")
    server.script("data", "GET", f"*/{BIG}", [f"cut:{12 << 20}", "norange"])
    tool.expect(peer.download(BIG, revision="v1.0") == big, "after an answer without a range the file differs")
    server.script("data", "GET", f"*/{BIG}", ["rate:0,1"])
    tool.expect(peer.download(BIG, revision="v1.0") == big, "after 429 the file differs")
    server.script("data", "GET", f"*/{BIG}", ["expire"])
    expect_error(tool, peer.errors.HfHubHTTPError, "an expired URL", lambda: peer.download(BIG, revision="v1.0"))
    tool.expect(peer.download(BIG, revision="v1.0") == big, "after an expired URL the file differs")
    server.script("data", "GET", f"*/{BIG}", ["short:1"])
    expect_error(tool, OSError, "a short body", lambda: peer.download(BIG, revision="v1.0"))
    # This is the reason to compare digests, which this client doesn't.
    server.script("data", "GET", f"*/{BIG}", ["flip:20000000"])
    damaged = peer.download(BIG, revision="v1.0")
    tool.expect(damaged != big and len(damaged) == len(big), "a flipped bit is not there")


def check_tls(tool, peer, files):
    """Runs in another process, since the endpoint differs. No plain listener ever sees a token."""
    folder = os.path.join(peer.folder, "tls")
    os.makedirs(folder)
    with hub.Hub(tls=Tls(folder)) as server:
        server.tokens = {GOOD: "reader"}
        server.add("org/model", {"main": files})
        code = (f"import huggingface_hub as h; h.snapshot_download('org/model', cache_dir={folder + '/cache'!r})")
        environment = {**os.environ, "HF_ENDPOINT": server.endpoint, "SSL_CERT_FILE": server.ca_file,
                       "REQUESTS_CA_BUNDLE": server.ca_file}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
        tool.expect(done.returncode == 0, f"over TLS: {done.stderr[-1000:]}")
        snapshot = os.path.join(folder, "cache/models--org--model/snapshots", server.repos["org/model"].branches["main"])
        tool.expect(tree_of(snapshot) == files, "over TLS a snapshot differs")
        tool.expect(not server.violations(*SEEN_BY_NOBODY), f"over TLS: {server.violations()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hfshard", help="not used: as the other tests with peers have it")
    parser.parse_args()
    interop.use_peer_python()
    folder = tempfile.mkdtemp(prefix="hfshard_hub_peer_")
    tool = interop.Program("none", folder)
    try:
        peer = Peer(folder)
        files = model()
        check_snapshots(tool, peer, files)
        repo = peer.server.repos["org/model"]
        check_revisions(tool, peer, repo)
        check_listings(tool, peer, repo)
        check_headers(tool, peer, files)
        check_refusals(tool, peer, files)
        tool.expect(not peer.server.violations(*SEEN_BY_NOBODY), f"violations: {peer.server.violations(*SEEN_BY_NOBODY)}")
        for kind in ("branch_again", "accept_encoding", "resolver_calls"):
            tool.expect(peer.server.violations(kind), f"the client is known for {kind}")
        tool.expect(peer.server.log(listener="hub", had_authorization=True), "the hub never saw the token")
        check_faults(tool, peer, files)
        check_tls(tool, peer, files)
        peer.server.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
