#!/usr/bin/env python3
"""Reads checkpoints of real torch.distributed.checkpoint bit for bit as torch loads them, and converts them to
safetensors.

peers/dcp_write.py writes about forty variants in one process and its forks. `inspect --data` finds no damage in
them. `dump-all` gives the values that torch loads. `reshard` and `convert --to safetensors --scheme hf` keep them.
Then the test removes or changes files and bytes. Each change is an error that names file and key, and torch mostly
stays silent.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

import interop

LEAST = 30
# Variants whose items went through zstd.
PACKED = ("packed", "packed_large", "packed_fsdp_2", "packed_uneven_3", "packed_columns_3", "packed_one_dim_twice")
DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int16": "i16",
          "int8": "i8", "uint8": "u8", "bool": "bool", "complex64": "c64", "float8_e4m3fn": "f8_e4m3", "float8_e5m2": "f8_e5m2",
          "float8_e4m3fnuz": "f8_e4m3fnuz", "float8_e5m2fnuz": "f8_e5m2fnuz", "float8_e8m0fnu": "f8_e8m0", "uint16": "u16",
          "uint32": "u32", "uint64": "u64"}
# Variants with objects next to tensors: peers/dcp_state.py.
STATES = ("training", "packed_training", "training_file_per_item", "list_and_text")
# Their targets. With small units, they are unpacked first.
WAYS = {"safetensors": ["--to", "safetensors"], "dcp": ["--to", "dcp", "--mesh", "fsdp=4"], "orbax": ["--to", "orbax"],
        "unpacked": ["--to", "dcp", "--mesh", "fsdp=4", "--limits", "slab_bytes=1048576,merge_bytes=65536,segment_bytes=65536"]}


def torch_python():
    """Returns the first of the peers' interpreters that has torch."""
    for variable in ("HFSHARD_PEER_PYTHON", "HFSHARD_MAXTEXT_PYTHON"):
        python = os.environ.get(variable)
        if python and subprocess.run([python, "-c", "import torch.distributed.checkpoint"], capture_output=True,
                                     check=False).returncode == 0:
            return python
    print("PEER MISSING torch")
    sys.exit(interop.SKIP_STATUS)


def peer(python, script, *words):
    done = subprocess.run([python, os.path.join(interop.HERE, "peers", script), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"FAIL {script} {' '.join(words)}\n{done.stdout}{done.stderr}")
        sys.exit(1)
    return json.loads(done.stdout)


def dumped(tool, path, tensors):
    """Returns the sha256 of each tensor, as dump-all writes them one after another."""
    tool.run("dump-all", path, tool.path("dumped"))
    out = {}
    with open(tool.path("dumped"), "rb") as file:
        for each in tensors:
            out[each["name"]] = hashlib.sha256(file.read(each["size_bytes"])).hexdigest()
        assert not file.read(1)
    return out


def check_values(tool, name, path, wanted, dtype=lambda value: value):
    listed = tool.json("inspect", path, "--data")
    tensors = listed["tensors"]
    tool.expect(not listed["damaged"], f"{name}: inspect --data says {listed['damaged'][:2]}")
    found = {each["name"]: [each["dtype"], each["shape"]] for each in tensors}
    tool.expect(found == {key: [dtype(DTYPES[each["dtype"]]), each["shape"]] for key, each in wanted["tensors"].items()},
                f"{name}: names, dtypes and shapes")
    values = dumped(tool, path, tensors)
    bad = [key for key, each in wanted["tensors"].items() if values.get(key) != each["sha256"]]
    tool.expect(not bad, f"{name}: values of {bad[:5]}")
    return listed


def check_variants(tool, known):
    for name, wanted in known.items():
        path = tool.path("torch", name)
        listed = check_values(tool, name, path, wanted)
        objects = sorted(listed["metadata"].get("objects", {}))
        tool.expect(objects == wanted["objects"], f"{name}: objects {objects}")
        # Runs of rows that are read one by one aren't contiguous on disk.
        tool.expect(not any("inner" in each for each in listed["tensors"]), f"{name}: inner chunks")
    check_values(tool, "consolidated", tool.path("torch", "hf_consolidated_2"), known["hf_consolidated_2/sharded"])
    for name in ("own_metadata_4", "hf_shards_4", "hf_shards_columns_3", "large", "fsdp_optimizer_4", "views", "one_dim_twice", "two_dims_turned", "uneven_3", "safetensors", *PACKED):
        back = tool.path("back", name)
        tool.run("convert", tool.path("torch", name), back, "--to", "safetensors", "--scheme", "hf", "--limits",
                 "segment_bytes=65536,merge_bytes=16384")
        check_values(tool, f"{name} as safetensors", back, known[name])
        again = tool.path("again", name)
        tool.run("reshard", tool.path("torch", name), again, "--to", "dcp", "--mesh", "fsdp=2,tensor=2", "--limits",
                 "floor_bytes=16")
        check_values(tool, f"{name} for another mesh", again, known[name])


def check_objects(tool, python, known):
    """Checks that everything except tensors stays after resharding, byte for byte, and loads as before."""
    pairs = []
    for name in STATES:
        source, out = tool.path("torch", name), tool.path("again", name)
        tool.run("reshard", source, out, "--to", "dcp", "--mesh", "fsdp=3", "--limits", "floor_bytes=16,file_min_bytes=4096,file_max_bytes=4096")
        check_values(tool, f"{name} for another mesh", out, known[name])
        pairs += [source, out]
    for root in ("optimizer", "nested"):
        out = tool.path("again", root)
        tool.run("reshard", tool.path("torch", "training"), out, "--root", root)
        pairs += [tool.path("torch", "training") + "#" + root, out]
    # Objects have the same contents with and without zstd, under any file names.
    for name in STATES[1:3]:
        said = tool.json("diff", tool.path("torch", STATES[0]), tool.path("torch", name))
        tool.expect(said["equal"] and said["compared_objects"] > 100, f"{name}: {said['structure'][:3]}")
    for path, differing in peer(python, "dcp_state.py", *pairs).items():
        tool.expect(not differing, f"{path}: {differing[:5]}")


def check_packed(tool, known):
    """Checks items that went through zstd next to the same without, in little memory, and damaged."""
    for name in PACKED:
        listed = tool.json("inspect", tool.path("torch", name))
        tool.expect(all(each["codecs"] == ["stream.zstd/1"] for each in listed["tensors"]), f"{name}: codecs")
        tool.run("verify", tool.path("again", name), tool.path("torch", name))
        tool.run("diff", tool.path("back", name), tool.path("torch", name))
    for name in ("uneven_3", "columns_3", "one_dim_twice"):
        tool.run("diff", tool.path("torch", "packed_" + name), tool.path("torch", name))
    source = tool.path("torch", "packed_large")
    for name, words in WAYS.items():
        words = [*words, "--scheme", "hf", "--jobs", "1", "--io-threads", "1"]
        plan = tool.json("plan", source, *words)
        least = str(plan["need_memory_bytes"])
        out = tool.path("least", name)
        tool.run("convert", source, out, *words, "--max-memory", least)
        done = tool.run_any("convert", source, out + "-less", *words, "--max-memory", str(int(least) - (2 << 20)))
        tool.expect(done.returncode == 3, f"{name}: less memory than is needed gives {done.returncode}")
        tool.run("diff", source, out)
        if name != "orbax":
            check_values(tool, f"packed_large as {name}", out, known["packed_large"])
    done = tool.run_any("link", source, tool.path("linked"), "--scheme", "hf")
    tool.expect(done.returncode == 3, f"link gives {done.returncode}: {done.stderr}")
    check_flips(tool, known)


def check_flips(tool, known):
    """Checks that hfshard finds any flipped bit, or that it doesn't change a value."""
    name = "packed_columns_3"
    path = tool.copy(os.path.join("torch", name), "flipped")
    file = os.path.join(path, "__1_0.distcp")
    with open(file, "rb") as data:
        good = data.read()
    found = 0
    for at in range(0, len(good), max(1, len(good) // 97)):
        with open(file, "wb") as data:
            data.write(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1:])
        error = error_of(tool, path)
        found += bool(error)
        if error:
            tool.expect(error["code"] in ("corrupt", "unsupported", "limit") and "__1_0.distcp" in error["file"] and error["tensor"],
                        f"a flip at {at}: {error}")
        else:
            check_values(tool, f"a flip at {at}", path, known[name])
    print(f"packed: {found} flipped bits are found")
    tool.expect(found > 50, f"{found} flips are found")


def check_root(tool, known):
    """Extracts a model from a training run, under its own names."""
    source = tool.path("torch", "fsdp_optimizer_4")
    wanted = {"tensors": {name.removeprefix("model."): each for name, each in known["fsdp_optimizer_4"]["tensors"].items()
                          if name.startswith("model.")}}
    tool.expect(0 < len(wanted["tensors"]) < len(known["fsdp_optimizer_4"]["tensors"]), "the run holds more than the model")
    tool.run("convert", source, tool.path("model"), "--to", "safetensors", "--scheme", "hf", "--root", "model")
    check_values(tool, "--root model", tool.path("model"), wanted)
    tool.run("reshard", source, tool.path("model4"), "--to", "dcp", "--root", "model")
    check_values(tool, "reshard --root model", tool.path("model4"), wanted)
    tool.run("verify", tool.path("model4"), source)
    for target in ("dcp", "orbax"):  # a reshard of the whole run has the same subtree
        tool.run("reshard", source, tool.path("run-" + target), "--to", target)
        tool.run("convert", tool.path("run-" + target), tool.path("of-" + target), "--to", "safetensors", "--root", "model")
        check_values(tool, f"--root model of a reshard to {target}", tool.path("of-" + target), wanted)
    for words, status, sentence in (([source, "--root", "mode"], 3, "below"), ([tool.path("model"), "--root", "0"], 2, "tree of arrays")):
        done = tool.run("convert", *words[:1], tool.path("none"), *words[1:], "--to", "safetensors", "--scheme", "hf", status=status)
        tool.expect(sentence in done.stderr, f"{' '.join(words)}: {done.stderr}")


def error_of(tool, path):
    done = tool.run_any("inspect", path, "--data", "--json")
    said = json.loads(done.stdout)
    if said["command"] == "error":
        return said["error"]
    return said["damaged"][0] | {"code": "corrupt"} if said["damaged"] else {}


def check_damage(tool, name, edit, code, sentence, file=None, source="two_dims"):
    path = tool.copy(os.path.join("torch", source), "damaged")
    edit(path)
    error = error_of(tool, path)
    text = json.dumps(error)
    tool.expect(error.get("code") == code and sentence in text and (file is None or file in text), f"{name}: {text}")
    tool.expect(not file or file == ".metadata" or "tensor" in text, f"{name} names a tensor: {text}")


def replace(path, name, old, new):
    """Replaces existing bytes of a file."""
    with open(os.path.join(path, name), "rb") as file:
        data = file.read()
    assert old in data, old
    with open(os.path.join(path, name), "wb") as file:
        file.write(data.replace(old, new, 1))


def flip(path, name, back):
    with open(os.path.join(path, name), "r+b") as file:
        data = file.read()
        # The elements are in the record data/0.
        at = data.index(b"PK\x07\x08", data.index(b"/data/0")) - back
        file.seek(at)
        file.write(bytes([data[at] ^ 16]))


def check_damages(tool):
    check_damage(tool, "a flipped element", lambda path: flip(path, "__0_0.distcp", 1), "corrupt", "CRC", "__0_0.distcp")
    check_damage(tool, "a lost file", lambda path: os.remove(os.path.join(path, "__3_0.distcp")), "not_found", "missing",
                 "__3_0.distcp")
    check_damage(tool, "a short file", lambda path: os.truncate(os.path.join(path, "__2_0.distcp"), 900), "corrupt", "passes the end",
                 "__2_0.distcp")
    check_damage(tool, "a path that leaves", lambda path: replace(path, ".metadata", b"__1_0.distcp", b"../_0.distcp"), "corrupt",
                 "isn't in the checkpoint", ".metadata")
    check_damage(tool, "short metadata", lambda path: os.truncate(os.path.join(path, ".metadata"), 700), "corrupt", "cut off",
                 ".metadata")
    check_damage(tool, "a rank without metadata", lambda path: os.remove(os.path.join(path, "__2.metadata")), "not_found", "rank 2", None,
                 "own_metadata_4")
    check_damage(tool, "a rank that is gone", lambda path: [os.remove(os.path.join(path, name)) for name in ("__2.metadata", "__2_0.distcp")],
                 "corrupt", "don't cover", None, "own_metadata_4")
    check_damage(tool, "a shard that is gone", lambda path: os.remove(os.path.join(path, "shard-00002-model-00001-of-00001.safetensors")),
                 "not_found", "shard 2 of", None, "hf_shards_4")
    check_damage(tool, "a shard of one file that is gone",
                 lambda path: os.remove(os.path.join(path, "shard-00002-model-00002-of-00003.safetensors")), "not_found", "elements",
                 "shard-00002-model-00002-of-00003.safetensors", "hf_shards_files_3")
    check_damage(tool, "a short shard", lambda path: os.truncate(os.path.join(path, "shard-00003-model-00001-of-00001.safetensors"), 500),
                 "corrupt", "", None, "hf_shards_4")
    check_damage(tool, "a lost file of packed items", lambda path: os.remove(os.path.join(path, "__2_0.distcp")), "not_found", "missing",
                 "__2_0.distcp", "packed_columns_3")
    check_damage(tool, "a short file of packed items", lambda path: os.truncate(os.path.join(path, "__1_0.distcp"), 900), "corrupt",
                 "passes the end", "__1_0.distcp", "packed_columns_3")
    check_damage(tool, "another transform", lambda path: replace(path, ".metadata", b"stream.zstd/1", b"stream.zstd/2"), "unsupported",
                 "stream.zstd/2", ".metadata", "packed_columns_3")
    check_damage(tool, "no metadata", lambda path: os.remove(os.path.join(path, ".metadata")), "not_found", "unfinished", None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hfshard", required=True, help="the test tool")
    args = parser.parse_args()
    python = torch_python()
    folder = tempfile.mkdtemp()
    try:
        tool = interop.Program(args.hfshard, folder)
        os.mkdir(tool.path("torch"))
        known = peer(python, "dcp_write.py", tool.path("torch"))
        tool.expect(len(known) >= LEAST, f"{len(known)} variants")
        check_variants(tool, known)
        check_objects(tool, python, known)
        check_packed(tool, known)
        check_root(tool, known)
        check_damages(tool)
        return tool.verdict()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
