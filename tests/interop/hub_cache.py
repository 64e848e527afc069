#!/usr/bin/env python3
"""Checks that hfshard and huggingface_hub fill the same cache, and each reads the other's.

The real client and CacheWriter each download the same files, with the same names, links, bytes, modes and listings.
Offline, the client finds every file from hfshard by branch, tag and commit, and its own scan finds no problem.
hfshard reads the client's files. A lock of one makes the other wait. After `convert --keep-files` and `link
--keep-files`, the client finds the model as its own, and requests no data. With the client's cache, hfshard doesn't
need a hub.
"""

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import urllib.parse

import interop

import hub  # (found by interop)
import testing  # (the same)

REPO = "org/na-me.x"
BIG = bytes(range(256)) * 20_000
FILES = {"model-00001-of-00002.safetensors": BIG, "model-00002-of-00002.safetensors": BIG[::-1], "config.json": b"{}",
         "sub dir/deep/\u00e9#?.txt": b"\xc3\xa9", "empty.txt": b"", "sub dir/same.json": b"{}"}
MODEL_CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128,
                "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 512,
                "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu",
                "attention_bias": False, "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
QUESTIONS = """
import json, os, sys
import huggingface_hub as h
repo, paths, revisions, left_out = json.loads(sys.argv[1])
found = {}
for revision in revisions:
    snapshot = h.snapshot_download(repo, revision=revision, ignore_patterns=left_out)
    files = {path: h.hf_hub_download(repo, path, revision=revision) for path in paths}
    assert all(os.path.commonpath([file, snapshot]) == snapshot for file in files.values()), (snapshot, files)
    found[revision] = {path: open(file, 'rb').read().hex() for path, file in files.items()}
info = h.scan_cache_dir()
print(json.dumps({"found": found, "warnings": [str(warning) for warning in info.warnings],
                  "repos": [[r.repo_id, r.size_on_disk, r.nb_files, sorted(r.refs)] for r in info.repos]}))
"""


def write_files(folder, files):
    for path, data in files.items():
        place = os.path.join(folder, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(data)
    return folder


def client(code, words, cache, **environment):
    """Returns the real client's output, in a separate process, since it reads the environment when it is imported."""
    told = testing.clean(HF_HUB_CACHE=cache, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_TELEMETRY="1")
    done = subprocess.run([sys.executable, "-c", code, *words], env=told | environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"FAIL the client ended with {done.returncode}\n{done.stderr[-3000:]}")
        sys.exit(1)
    return done.stdout


def layout(cache):
    """Returns path -> kind, mode, and the bytes or a link's target."""
    found = {}
    for folder, folders, names in os.walk(cache):
        for name in [*folders, *names]:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            said = os.readlink(path) if stat.S_ISLNK(info.st_mode) else ""
            if stat.S_ISREG(info.st_mode):
                with open(path, "rb") as file:
                    said = file.read()
            mode = oct(info.st_mode)
            # The client makes this one with mkstemp, readable only for itself. A reader with another user would ask the
            # Hub again.
            found[os.path.relpath(path, cache)] = ("listing" if "/trees/" in path and said else mode, said)
    return found


def listing_of(repo, sha):
    files = {}
    for path, file in repo.commits[sha].files.items():
        files[path] = {"size": file.size, "blob_id": file.oid}
        if file.sha256:
            files[path].update(lfs_sha256=file.sha256, lfs_size=file.size)
        if file.xet_hash:
            files[path]["xet_hash"] = file.xet_hash
    return json.dumps({"files": files})


def fill(program, cache, repo, sha, revision, folder):
    done = subprocess.run([program, "fill", cache, REPO, sha, revision, folder], input=listing_of(repo, sha),
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def show(program, cache, revision):
    return json.loads(subprocess.run([program, "show", cache, REPO, revision], capture_output=True, check=True).stdout)


def check_equal(tool, theirs, ours):
    first, second = layout(theirs), layout(ours)
    tool.expect(set(first) == set(second), f"only one of the caches has {sorted(set(first) ^ set(second))}")
    for path in sorted(set(first) & set(second)):
        tool.expect(first[path] == second[path], f"{path}: {str(first[path])[:200]} and {str(second[path])[:200]}")


def check_offline(tool, cache, files, revisions, repo=REPO, left_out=()):
    """Checks that everything is available without a hub, by each name of the commit."""
    told = json.loads(client(QUESTIONS, [json.dumps([repo, list(files), revisions, left_out])], cache, HF_HUB_OFFLINE="1"))
    wanted = {path: data.hex() for path, data in files.items()}
    for revision in revisions:
        tool.expect(told["found"][revision] == wanted, f"offline, {revision} has other files")
    tool.expect(not told["warnings"], f"the scan warns: {told['warnings']}")
    return told["repos"]


def check_lock(tool, program, cache, repo, sha, folder):
    """Checks that hfshard respects the client's lock. It takes the file only once it is free."""
    etag = repo.commits[sha].files["model-00001-of-00002.safetensors"].etag
    lock = os.path.join(cache, ".locks", "models--" + REPO.replace("/", "--"), etag + ".lock")
    code = ("import sys, time\nfrom huggingface_hub.utils import WeakFileLock\n"
            "with WeakFileLock(sys.argv[1]):\n    print('held', flush=True)\n    sys.stdin.read()")
    os.makedirs(os.path.dirname(lock))
    with subprocess.Popen([sys.executable, "-c", code, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        tool.expect(holder.stdout.readline() == b"held\n", "the client holds no lock")
        with subprocess.Popen([program, "fill", cache, REPO, sha, "main", folder], stdin=subprocess.PIPE) as ours:
            ours.stdin.write(listing_of(repo, sha).encode())
            ours.stdin.close()
            blob = os.path.join(cache, "models--" + REPO.replace("/", "--"), "blobs", etag)
            tool.expect(testing.stays(lambda: ours.poll() is None and not os.path.exists(blob)), "the lock did not keep us out")
            holder.stdin.close()
            tool.expect(ours.wait(testing.HANG_SECONDS) == 0 and os.path.exists(blob), "the file did not come when the lock was free")


def check_fetch(tool, program, server, theirs, revisions):
    """Checks that the command fills the same cache, and requests no data of the client's files."""
    ours = tool.path("fetched")

    def fetch(place, revision):
        environment = testing.clean(HF_ENDPOINT=server.endpoint, HF_HUB_CACHE=place)
        done = subprocess.run([program, "fetch", REPO, "--revision", revision, "--json"], env=environment,
                              capture_output=True, text=True, check=False)
        tool.expect(done.returncode == 0, f"fetch ended with {done.returncode}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    for revision in revisions:
        fetch(ours, revision)
    check_equal(tool, theirs, ours)
    for revision in revisions:
        tool.expect(fetch(theirs, revision)["fetched_files"] == 0, f"what the client has brought at {revision} is fetched")


def check_kept(tool, server):
    """Checks `convert` and `link` with --keep-files. They fill the client's own cache of the model, which then
    requests no data."""
    with open(tool.path("config.json"), "w", encoding="ascii") as file:
        json.dump(MODEL_CONFIG, file)
    source = tool.path("model")
    tool.run("mappings", "example", "qwen3", source, "--config", tool.path("config.json"), "--quiet")
    write_files(source, {"tokenizer.json": b"{}", "README.md": b"of a model"})
    paths = sorted(os.listdir(source))
    files = {}
    for path in paths:
        with open(os.path.join(source, path), "rb") as file:
            files[path] = file.read()
    repo = server.add(REPO + "-kept", {"main": source})
    copies = {"pytorch_model.bin": b"PK" * 999, "original/consolidated.00.pth": b"PK" * 999}
    repo.commit(copies, "refs/pr/2", parent=repo.branches["main"])
    download = ("import huggingface_hub as h, json, sys\n"
                "h.snapshot_download(sys.argv[1], revision=sys.argv[2], ignore_patterns=json.loads(sys.argv[3]))")
    for command in ("convert", "link"):
        for revision, left_out in (("main", []), ("refs/pr/2", ["*.bin", "*.pth"])):
            when = f"{command} {revision}"
            theirs, ours = tool.path(f"theirs {when}"), tool.path(f"kept {when}")
            words = [repo.id, revision, json.dumps(left_out)]
            client(download, words, theirs, HF_ENDPOINT=server.endpoint)
            done = subprocess.run([tool.program, command, repo.id, tool.path(f"out {when}"), "--revision", revision, "--keep-files"],
                                  env=testing.clean(HF_ENDPOINT=server.endpoint, HF_HUB_CACHE=ours),
                                  capture_output=True, text=True, check=False)
            tool.expect(done.returncode == 0, f"{when}: ended with {done.returncode}: {done.stdout}{done.stderr}")
            check_equal(tool, theirs, ours)
            server.reset()
            client(download, words, ours, HF_ENDPOINT=server.endpoint)
            asked = [(entry.listener, entry.path) for entry in server.log()]
            offline = subprocess.run([tool.program, command, repo.id, tool.path(f"offline {when}"), "--revision", revision],
                                     env=testing.clean(HF_ENDPOINT=server.endpoint, HF_HUB_CACHE=theirs, HF_HUB_OFFLINE="1"),
                                     capture_output=True, text=True, check=False)
            tool.expect(offline.returncode == 0, f"{when}: offline, ended with {offline.returncode}: {offline.stderr}")
            tool.expect(len(server.log()) == len(asked), f"{when}: the hub was asked offline")
            wanted = [("hub", f"/api/models/{repo.id}/revision/{urllib.parse.quote(revision, safe='')}")]
            tool.expect(asked == wanted, f"{when}: the client asked {asked}")
            check_offline(tool, ours, files, [revision, repo.find_ref(revision)], repo.id, left_out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--cache-tool", required=True)
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.cache_tool)
    interop.use_peer_python()
    try:
        import huggingface_hub  # noqa: F401  pylint: disable=unused-import
    except ImportError as error:
        print(f"PEER MISSING huggingface_hub: {error}")
        return interop.SKIP_STATUS
    folder = tempfile.mkdtemp(prefix="hfshard_hub_cache_")
    tool = interop.Program(arguments.hfshard, folder)
    try:
        source = write_files(tool.path("source"), FILES)
        with hub.Hub() as server:
            repo = server.add(REPO, {"main": source})
            first = repo.branches["main"]
            theirs, ours = tool.path("theirs"), tool.path("ours")
            download = "import huggingface_hub as h, sys\nh.snapshot_download(sys.argv[1], revision=sys.argv[2])"
            client(download, [REPO, "main"], theirs, HF_ENDPOINT=server.endpoint)
            tool.expect(fill(program, ours, repo, first, "main", source) == (0, ""), "the cache is not filled")
            check_equal(tool, theirs, ours)
            shown = show(program, theirs, "main")
            tool.expect(shown == {"commit": first, "files": {path: len(data) for path, data in FILES.items()},
                                  "missing": [], "listed": True}, f"of the client's cache we see {shown}")

            # A second commit, as a pull request. Most of it is in the cache.
            changed = {**FILES, "config.json": b"[]"}
            other = write_files(tool.path("other"), changed)
            second = repo.commit(other, "refs/pr/1")
            client(download, [REPO, "refs/pr/1"], theirs, HF_ENDPOINT=server.endpoint)
            tool.expect(fill(program, ours, repo, second, "refs/pr/1", other) == (0, ""), "a second commit fails")
            check_equal(tool, theirs, ours)
            check_fetch(tool, tool.program, server, theirs, ["main", "refs/pr/1"])
            asked = len(server.log())
            client(download, [REPO, "main"], ours, HF_ENDPOINT=server.endpoint)
            fetched = [entry.path for entry in server.log()[asked:]]
            tool.expect(fetched == [f"/api/models/{REPO}/revision/main"], f"with our cache the client asked {fetched}")
            check_kept(tool, server)
        sizes = [check_offline(tool, cache, FILES, ["main", first]) for cache in (theirs, ours)]
        check_offline(tool, ours, changed, ["refs/pr/1", second])
        tool.expect(sizes[0] == sizes[1] and len(sizes[0]) == 1, f"the scans differ: {sizes}")

        # A truncated blob isn't a file for hfshard, though the client accepts it. Filling again repairs it.
        blob = os.path.realpath(os.path.join(ours, "models--org--na-me.x/snapshots", first, "config.json"))
        os.truncate(blob, 1)
        tool.expect(set(show(program, ours, "main")["missing"]) == {"config.json", "sub dir/same.json"}, "a cut blob counts")
        tool.expect(fill(program, ours, repo, first, "main", source) == (0, ""), "a cut blob is not replaced")
        check_equal(tool, theirs, ours)
        # hfshard refuses files that differ from the listing.
        status, said = fill(program, tool.path("wrong"), repo, first, "main", other)
        tool.expect(status == 3 and "config.json" in said, f"wrong bytes: {status} {said}")
        tool.expect(not os.path.exists(tool.path("wrong/models--org--na-me.x/refs")), "wrong bytes have a reference")
        check_lock(tool, program, tool.path("locked"), repo, first, source)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
