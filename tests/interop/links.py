#!/usr/bin/env python3
"""Checks `hfshard link`: names of the source's files, the index in place, parts that can't be linked, and edits of the
source.

fixtures.py reads linked outputs of every family, and this test covers the files. Real Orbax and TensorStore read
each output, bit for bit. The test compares it with the oracle's expected.json, or with the source's own bytes if
names and shapes stay.
"""

import hashlib
import itertools
import json
import os
import shutil
import sys
import tempfile

import interop
import oracle_dirs

PLAIN, SCALED = "qwen3", "llama3.1"  # all of the first can be linked; queries of the second are scaled
QUANTISED = "deepseek3-fp8"
MESH = {"fsdp": 4, "tensor": 2}
# numpy's names for the dtypes of safetensors.
DTYPES = {"BF16": "bfloat16", "F32": "float32", "F8_E4M3": "float8_e4m3fn"}


def read_back(tool, item, expected, what, in_step):
    """Reads in the ways that don't need a step directory, plain and sharded, and in those that do."""
    import orbax_peer as peer
    import orbax_read

    readers = orbax_read.Readers(item, expected, with_state=True)
    ways = [("tensorstore", readers.tensorstore), ("maxtext_call", readers.maxtext_call),
            ("maxtext_call sharded", lambda: readers.maxtext_call(MESH)),
            ("standard_checkpointer", readers.standard_checkpointer),
            ("standard_checkpointer sharded", lambda: readers.standard_sharded(MESH))]
    if in_step:
        ways += [("checkpoint_manager", readers.checkpoint_manager), ("v1_load", readers.v1_load)]
    for name, read in ways:
        found = {leaf: peer.describe(value) for leaf, value in read().items()}
        tool.expect(peer.compare(f"{what}, {name}", expected, found) == 0, f"{what}, {name}: leaves differ")


def fresh_source(tool, name, number):
    """Makes a copy of an oracle's checkpoint."""
    source = tool.path(f"source-{name}-{next(number)}")
    os.mkdir(source)
    for file in os.listdir(os.path.join(interop.ORACLE, name)):
        if file != "expected.json":
            shutil.copy2(os.path.join(interop.ORACLE, name, file), source)
    return source


def shards(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))


def check_names(tool, oracle, number):
    """Checks hard and symbolic links, and their effect when the source is deleted."""
    for kind in ("auto", "hard", "symbolic"):
        source, output = fresh_source(tool, PLAIN, number), tool.path(f"names-{kind}")
        report = tool.json("link", source, output, "--quiet", "--shards", kind)
        item = os.path.join(output, "0", "items")
        what = f"--shards {kind}"
        tool.expect(report["not_linked"] == [] and report["written_bytes"] == 0, f"{what}: {report}")
        data = os.path.join(item, "d")
        tool.expect(shards(data) == shards(source), f"{what}: files are {os.listdir(data)}")
        for name in shards(source):
            theirs, ours = os.path.join(source, name), os.path.join(data, name)
            tool.expect(os.path.samefile(theirs, ours), f"{what}: {name} is another file")
            tool.expect(os.path.islink(ours) == (kind == "symbolic"), f"{what}: {name} is linked in another way")
        written = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(output) for name in names
                      if os.lstat(os.path.join(at, name)).st_nlink == 1 and not os.path.islink(os.path.join(at, name)))
        tool.expect(written < 100_000, f"{what}: {written} bytes were written")
        read_back(tool, item, oracle.kept("stacked"), what, in_step=True)
        if kind != "symbolic":
            shutil.rmtree(source)
            read_back(tool, item, oracle.kept("stacked"), what + ", source deleted", in_step=True)
            tool.run("verify", output, "--quiet")
        again = tool.run_any("link", source, output, "--quiet")
        tool.expect(again.returncode != 0, f"{what}: an output that exists is linked over")
    done = tool.run_any("link", fresh_source(tool, PLAIN, number), tool.path("reflinked"), "--shards", "reflink")
    tool.expect(done.returncode == 0 or "can't link" in done.stderr, f"--shards reflink: {done.stderr}")
    tool.expect(done.returncode == 0 or not os.path.exists(tool.path("reflinked")), "--shards reflink left an output")


def check_in_place(tool, oracles, number):
    """Checks the index next to the Hugging Face files. The directory is both."""
    source = fresh_source(tool, PLAIN, number)
    before = {name: os.stat(os.path.join(source, name)) for name in os.listdir(source)}
    tool.run("link", source, "--in-place", "--quiet")
    after = {name: os.stat(os.path.join(source, name)) for name in before}
    tool.expect(all(before[name].st_mtime_ns == after[name].st_mtime_ns and before[name].st_size == after[name].st_size
                    and after[name].st_nlink == 1 for name in before), "--in-place touched a file of the source")
    tool.expect(not [name for name in os.listdir(tool.folder) if name.startswith(".source")], "staging is left")
    read_back(tool, source, oracles[PLAIN].kept("stacked"), "--in-place", in_step=False)
    tool.run("verify", source, "--quiet")
    tool.run("inspect", source, "--data", "--quiet")
    # It still converts, and can be copied as a whole.
    tool.run("convert", source, tool.path("converted-from-both"), "--quiet")
    copied = tool.copy(os.path.basename(source), "copied")
    read_back(tool, copied, oracles[PLAIN].kept("stacked"), "--in-place, copied", in_step=False)
    tool.run("link", source, "--in-place", "--quiet", status=3)
    tool.run("link", source, "--in-place", "--quiet", "--resume")
    tool.run("link", source, "--in-place", "--quiet", "--overwrite", "--layers", "separate")
    read_back(tool, source, oracles[PLAIN].kept("separate"), "--in-place --layers separate", in_step=False)
    scaled = fresh_source(tool, SCALED, number)
    names = sorted(os.listdir(scaled))
    error = tool.json("link", scaled, "--in-place", "--quiet", status=3)["error"]
    tool.expect(error["code"] == "unsupported" and "query" in error["message"] and "--side-file" in error["hint"],
                f"--in-place of scaled queries: {error}")
    tool.expect(sorted(os.listdir(scaled)) == names, "a refused --in-place wrote something")
    tool.run("link", scaled, "--in-place", "--side-file", "--quiet")
    read_back(tool, scaled, oracles[SCALED].kept("stacked"), "--in-place --side-file", in_step=False)
    tool.run("verify", scaled, "--quiet")


def stored(folder):
    """Returns the tensors of its files like orbax_peer.describe(), from only their headers and bytes."""
    found = {}
    for shard in shards(folder):
        with open(os.path.join(folder, shard), "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            data = file.read()
        header.pop("__metadata__", None)
        found |= {name: {"shape": entry["shape"], "dtype": DTYPES[entry["dtype"]],
                         "sha256": hashlib.sha256(data[slice(*entry["data_offsets"])]).hexdigest()}
                  for name, entry in header.items()}
    return found


def check_stored_names(tool, number):
    """Checks --scheme hf: all of any model can be linked, scaled queries and codes too."""
    import orbax_peer as peer

    for name in (SCALED, QUANTISED):
        source, output = fresh_source(tool, name, number), tool.path("stored-" + name)
        report = tool.json("link", source, output, "--scheme", "hf", "--quiet")
        tool.expect(report["not_linked"] == [], f"--scheme hf of {name}: {report['not_linked']} are not linked")
        found = peer.describe_arrays(peer.item_path(output))
        tool.expect(peer.compare(f"--scheme hf of {name}", stored(source), found) == 0, f"{name}: tensors differ")


def flip(path, keep_time):
    """Changes one byte of the data of a file, in place."""
    info = os.stat(path)
    with open(path, "r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        at = 8 + length + (info.st_size - 8 - length) // 2
        file.seek(at)
        old = file.read(1)
        file.seek(at)
        file.write(bytes([old[0] ^ 1]))
    if keep_time:
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def check_edits(tool, number):
    """Checks that an edit of the source edits the output. The time shows it, or the digests do."""
    for digests, keep_time in itertools.product((False, True), (False, True)):
        source, output = fresh_source(tool, PLAIN, number), tool.path(f"edited-{digests}-{keep_time}")
        tool.run("link", source, output, "--quiet", *(["--digests"] if digests else []))
        tool.run("verify", output, "--quiet")
        tool.run("inspect", output, "--data", "--quiet")
        edited = os.path.join(source, shards(source)[0])
        flip(edited, keep_time)
        what = f"an edit in place ({'with' if digests else 'without'} digests, time {'kept' if keep_time else 'new'})"
        seen = tool.run_any("verify", output, "--json", "--quiet")
        wanted = digests or not keep_time
        tool.expect((seen.returncode == 5) == wanted, f"{what}: verify ends with {seen.returncode}: {seen.stdout}")
        said = json.loads(seen.stdout)
        tool.expect(any(item["tensor"] for item in said["differences"]) == digests, f"{what}: {said['differences']}")
        if not digests:
            tool.expect(said["unrecorded_bytes"] > 0, f"{what}: verify does not say what it did not read")
        looked = tool.run_any("inspect", output, "--data", "--quiet")
        tool.expect((looked.returncode != 0) == (not keep_time),
                    f"{what}: inspect --data ends with {looked.returncode}: {looked.stdout}{looked.stderr}")
        os.truncate(edited, os.path.getsize(edited) - 100)
        tool.expect(tool.run_any("verify", output, "--quiet").returncode != 0, f"{what}: a truncated file is not found")


def main():
    arguments = interop.start(__doc__)
    oracles = {name: oracle_dirs.OracleDir(name) for name in (PLAIN, SCALED)}
    number = itertools.count()
    with tempfile.TemporaryDirectory(prefix="hfshard-links-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        check_names(tool, oracles[PLAIN], number)
        check_in_place(tool, oracles, number)
        check_stored_names(tool, number)
        check_edits(tool, number)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
