#!/usr/bin/env python3
"""Checks `convert --compress`: real TensorStore and Orbax read every form of it, bit for bit against expected.json.

Each checkpoint uses the default sizes, chunks of 64 bytes, level 22, no checksums, and inner chunks with a frame
each. zarr.json states the codecs as TensorStore writes them. The data files have only the frames. The digest is that
of the uncompressed conversion. Then the test checks every level, compressible content, damage to frames, and refused
options.
"""

import argparse
import collections
import filecmp
import json
import os
import random
import sys
import tempfile

import corruption
import fixtures
import interop
import oracle_dirs

# The last one is stored in f8 with scales, and some of its leaves are f32.
FIXTURES = ("qwen3", "llama3.1", "mixtral", "deepseek3-fp8")
# Outputs that are damaged, and whether they have checksums.
DAMAGED = {"qwen3-usual": True, "mixtral-inner": True, "deepseek3-fp8-unchecked": False}
LIMITS = interop.SHRUNKEN[-1]
INNER = ["--chunk-bytes", "64KiB", "--limits", LIMITS + ",outer_shards=2"]
ALIGNMENT = 4096
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}
NO_LEVELS = ("zstd:23", "zstd:0", "zstd:-1", "zstd:", "zstd:3x", "zstd: 3", "zstd3", "ZSTD", "gzip", "")
WIDE = {**oracle_dirs.read_json(interop.ORACLE, "qwen3", "config.json"), "hidden_size": 256, "intermediate_size": 640,
        "head_dim": 64, "vocab_size": 1000, "num_hidden_layers": 4}


def forms_of(mesh):
    """Returns name -> (options, zstd level, has crc32c, has inner chunks, layers)."""
    cut = ["--mesh", mesh, *interop.SHRUNKEN]
    return {
        "usual": (["--compress", "zstd"], 1, True, False, "stacked"),
        "shrunken": (["--compress", "zstd:9", *cut], 9, True, False, "stacked"),
        "separate": (["--compress", "zstd:2", *cut], 2, True, False, "separate"),
        "strongest": (["--compress", "zstd:22"], 22, True, False, "stacked"),
        "unchecked": (["--compress", "zstd:3", "--checksum", "none"], 3, False, False, "stacked"),
        "inner": (["--compress", "zstd:5", "--mesh", "fsdp=4,tensor=2", *INNER], 5, True, True, "stacked"),
        "unchecked inner": (["--compress", "zstd:19", "--checksum", "none", "--mesh", "fsdp=4,tensor=2", *INNER], 19,
                            False, True, "stacked"),
    }


READ_IN_EVERY_WAY = ("usual", "inner")


def every_way(readers):
    return fixtures.ways_of(readers, True, fixtures.BOTH_LOADS)


def one_load(readers):
    return fixtures.ways_of(readers, False, ("sharded",))


def wanted_codecs(level, checked, inner):
    """Returns the expected codecs. `inner`: shape of the inner chunks, or None."""
    zstd = {"name": "zstd", "configuration": {"level": level, "checksum": False}}
    codecs = [BYTES, zstd, *([CRC] if checked else [])]
    if inner is None:
        return codecs
    return [{"name": "sharding_indexed",
             "configuration": {"chunk_shape": inner, "codecs": codecs, "index_codecs": [BYTES, CRC]}}]


def as_tensorstore_writes(name, text):
    """Returns the zarr.json that TensorStore writes for the same metadata."""
    import tensorstore as ts

    context = ts.Context()
    metadata = {key: value for key, value in json.loads(text).items() if key not in ("zarr_format", "node_type")}
    spec = {"driver": "zarr3", "kvstore": {"driver": "memory", "path": name + "/"}, "metadata": metadata}
    ts.open(spec, context=context, create=True).result()
    return ts.KvStore.open({"driver": "memory"}, context=context).result().read(name + "/zarr.json").result().value


def check_stored(tool, output, plan, level, checked, what):
    """Checks that zarr.json is as requested and canonical, and that the data files have only the chunks."""
    import orbax_peer as peer
    import tensorstore as ts

    item = peer.item_path(output)
    store = ts.KvStore.open(peer.kvstore(item)).result()
    inner = {leaf["path"]: leaf.get("inner") for leaf in plan["leaves"]}
    for name in peer.array_names(item):
        if name != "step":
            text = store.read(name + "/zarr.json").result().value
            tool.expect(as_tensorstore_writes(name, text) == text, f"{what}: TensorStore writes {name} otherwise")
            codecs = json.loads(text)["codecs"]
            wanted = wanted_codecs(level, checked, inner[name])
            tool.expect(codecs == wanted, f"{what}: codecs of {name} are {codecs}, not {wanted}")
    for leaf in tool.json("inspect", output, "--data", "--quiet")["leaves"]:
        if leaf["path"] != "step":
            found = [name for name in leaf["codecs"] if name != "sharding_indexed"]
            tool.expect(found == ["bytes", "zstd", *(["crc32c"] if checked else [])], f"{what}: inspect says {leaf}")
    keys = [key for key in store.list().result() if not key.endswith(b"/zarr.json") and key != b"step/c"]
    tool.expect(len(keys) == plan["chunks"], f"{what}: {len(keys)} chunks, the plan has {plan['chunks']}")
    chunks = collections.Counter(store.read(key).result().value for key in keys)
    for file in data_files(output):
        check_packed(tool, file, chunks, what)
    tool.expect(not +chunks, f"{what}: {(+chunks).total()} chunks are in no data file")


def check_packed(tool, path, chunks, what):
    """Checks that chunks follow each other, with zeros up to the next multiple of ALIGNMENT. Removes them from
    `chunks`."""
    with open(path, "rb") as file:
        data = file.read()
    lengths = sorted({len(chunk) for chunk in chunks})
    at = 0
    while at < len(data):
        length = next((length for length in lengths if chunks.get(data[at:at + length], 0) > 0), None)
        if length is None:
            tool.expect(False, f"{what}: no chunk begins at {at} of {path}")
            return
        chunks[data[at:at + length]] -= 1
        padding = -(at + length) % ALIGNMENT
        tool.expect(data[at + length:at + length + padding] == bytes(padding), f"{what}: {path} is not zero after {at}")
        at += length + padding


def data_files(output):
    """Returns the data files. Their names are numbers."""
    import orbax_peer as peer

    folder = os.path.join(peer.item_path(output), "d")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.isdecimal()]


def data_bytes(output):
    return sum(os.path.getsize(path) for path in data_files(output))


def check_fixture(tool, oracle):
    mesh = fixtures.mesh_that_divides(tool, oracle, "stacked")
    digests = {}
    for name, (words, level, checked, inner, layers) in forms_of(mesh).items():
        what = f"{oracle.name} {name}"
        if layers not in oracle.layouts():
            continue
        words = [*words, "--layers", layers, *oracle.words()]
        plan = tool.json("plan", oracle.path, *words)
        if name in ("shrunken", "separate"):
            fixtures.check_is_cut(tool, plan, what)
        cut = sum("inner" in leaf for leaf in plan["leaves"])
        tool.expect((2 * cut > len(plan["leaves"])) == inner, f"{what}: {cut} leaves have inner chunks")
        output = tool.path(f"{oracle.name}-{name}")
        report = tool.json("convert", oracle.path, output, "--quiet", *words)
        if layers not in digests:
            uncompressed = tool.path(f"{oracle.name}-{layers}-uncompressed")
            digests[layers] = tool.json("convert", oracle.path, uncompressed, "--quiet", "--layers", layers,
                                        *oracle.words())["root_digest"]
        tool.expect(report["root_digest"] == digests[layers], f"{what}: another root digest than without --compress")
        tool.expect(report["output_bytes"] == data_bytes(output), f"{what}: convert says {report}")
        fixtures.read_back(tool, output, oracle.kept(layers), every_way if name in READ_IN_EVERY_WAY else one_load, what)
        check_stored(tool, output, plan, level, checked, what)
        for source in ([], [oracle.path]):
            verified = tool.json("verify", output, *source, "--quiet")
            tool.expect(verified["differences"] == [] and verified["unrecorded_bytes"] == 0,
                        f"{what}: verify {'OUT SOURCE' if source else 'OUT'} says {verified}")


def wide_source(tool):
    """Writes a source in which every other block of 4 KiB is zeros, so that frames have many lengths."""
    source, config = tool.path("wide"), tool.path("wide.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump(WIDE, file)
    tool.run("mappings", "example", "qwen3", source, "--config", config, "--shard-bytes", "1MiB")
    for name in os.listdir(source):
        if name.endswith(".safetensors"):
            with open(os.path.join(source, name), "r+b") as file:
                begin = 8 + int.from_bytes(file.read(8), "little")
                for at in range(begin, os.path.getsize(file.name) - 4096, 8192):
                    file.seek(at)
                    file.write(bytes(4096))
    return source


def same_tree(one, other):
    """Returns whether two directories have the same files with the same bytes."""
    names = {top: sorted(os.path.relpath(os.path.join(folder, name), top) for folder, _, files in os.walk(top)
                         for name in files) for top in (one, other)}
    _, mismatch, errors = filecmp.cmpfiles(one, other, names[one], shallow=False)
    return names[one] == names[other] and not mismatch and not errors


def check_compressible(tool):
    """Checks that the data files shrink. Values, digest and verify stay."""
    import orbax_peer as peer

    source = wide_source(tool)
    words = ["--mesh", "fsdp=4,tensor=2", "--chunk-bytes", "100KiB", "--limits",
             LIMITS.replace("=8192,file_max_bytes=8192", "=1048576,file_max_bytes=1048576")]
    forms = {"none": 1.01, "zstd": 0.75, "zstd:1": 0.75, "zstd:22": 0.75}
    reports, expected = {}, None
    for compress, most in forms.items():
        output = tool.path("wide-" + compress)
        plan = tool.json("plan", source, *words, "--compress", compress)
        tool.expect(plan["files"] >= 4 and plan["units"] > 20, f"wide: {plan['files']} files, {plan['units']} units")
        reports[compress] = tool.json("convert", source, output, *words, "--compress", compress, "--quiet")
        same = reports[compress]["root_digest"] == reports["none"]["root_digest"]
        tool.expect(same, f"wide {compress}: another root digest")
        bytes_now, bytes_before = data_bytes(output), data_bytes(tool.path("wide-none"))
        tool.expect(bytes_now < most * bytes_before, f"wide {compress}: {bytes_now} bytes instead of {bytes_before}")
        found = fixtures.describe_found(output)
        expected = expected or found
        tool.expect(peer.compare(f"wide {compress}", expected, found) == 0, f"wide {compress}: leaves differ")
        fixtures.read_back(tool, output, expected, every_way, f"wide {compress}")
        tool.run("verify", output, source, "--quiet")
        tool.run("inspect", output, "--data", "--quiet")
        if compress != "none":
            check_stored(tool, output, plan, 22 if compress == "zstd:22" else 1, True, f"wide {compress}")
    tool.expect(same_tree(tool.path("wide-zstd"), tool.path("wide-zstd:1")), "zstd and zstd:1 give other bytes")
    tool.expect(not same_tree(tool.path("wide-zstd"), tool.path("wide-zstd:22")), "zstd:1 and zstd:22 give equal bytes")


def check_levels(tool):
    """Checks all levels with TensorStore."""
    import orbax_peer as peer

    oracle = oracle_dirs.OracleDir("qwen3")
    for level in range(1, 23):
        output = tool.path("level")
        tool.run("convert", oracle.path, output, "--compress", f"zstd:{level}", *INNER, "--quiet", "--overwrite")
        found = fixtures.describe_found(output)
        tool.expect(peer.compare(f"zstd:{level}", oracle.kept("stacked"), found) == 0, f"zstd:{level}: leaves differ")


def check_stored_dtypes(tool):
    """Checks leaves of f8, under the names and in the types of the source."""
    import orbax_peer as peer

    source, found = os.path.join(interop.ORACLE, "deepseek3-fp8"), {}
    for compress in ("none", "zstd:7"):
        output = tool.path("stored-" + compress)
        tool.run("convert", source, output, "--scheme", "hf", "--quiet", "--compress", compress)
        found[compress] = peer.describe_arrays(peer.item_path(output))
    dtypes = {facts["dtype"] for facts in found["none"].values()}
    tool.expect({"float8_e4m3fn", "float32", "bfloat16"} <= dtypes, f"--scheme hf: dtypes are {dtypes}")
    tool.expect(peer.compare("--scheme hf", found["none"], found["zstd:7"]) == 0, "--scheme hf: leaves differ")


def read_array(item, name):
    """Returns the bytes of an array by TensorStore, or None if it refuses."""
    import orbax_peer as peer

    try:
        return peer.describe(peer.open_array(item, name).read().result())["sha256"]
    except ValueError:
        return None


def check_flip(tool, output, place, offset, checked):
    """Flips one byte of one chunk. Returns whether it was refused, changed (the values) or harmless."""
    import orbax_peer as peer

    name, begin, end, array, key = place
    item = peer.item_path(output)
    what = f"{os.path.basename(output)}: {array} chunk {key} flipped at {offset - begin} of {end - begin}"
    good = read_array(item, array)
    with peer.flipped_bits(os.path.join(item, "d", name), offset, 1 << offset % 8):
        seen = read_array(item, array)
        inspect, verify = (tool.run_any(*words, "--quiet", "--json") for words in
                           (["inspect", output, "--data"], ["verify", output]))
    came = "refused" if seen is None else "changed" if seen != good else "harmless"
    damaged, differences = json.loads(inspect.stdout)["damaged"], json.loads(verify.stdout)["differences"]
    tool.expect(came == "refused" or not checked, f"{what}: TensorStore reads it")
    tool.expect((inspect.returncode, len(damaged)) == ((3, 1) if came == "refused" else (0, 0)),
                f"{what} is {came}: inspect ends with {inspect.returncode}: {damaged}")
    if damaged:
        said = damaged[0]
        tool.expect(corruption.names_chunk(damaged, array, key, "tensor") and said["file"].endswith(f"d/{name}")
                    and begin <= said["begin_bytes"] < said["end_bytes"] <= end, f"{what}: inspect says {said}")
    tool.expect((verify.returncode, len(differences) > 0) == ((0, False) if came == "harmless" else (5, True)),
                f"{what} is {came}: verify ends with {verify.returncode}: {differences}")
    if came == "refused":
        tool.expect(len(differences) == 1 and corruption.names_chunk(differences, array, key, "leaf"),
                    f"{what}: verify says {differences}")
    tool.expect({entry["leaf"] for entry in differences} <= {array}, f"{what}: verify says {differences}")
    return came


def check_damage(tool):
    """Checks that the crc32c, zstd or the digests find a flipped byte. hfshard names a truncated or missing file."""
    chosen = random.Random(20240611)
    for name, checked in DAMAGED.items():
        output = tool.path(name)
        chunks = [chunk for chunk in corruption.chunk_map(os.path.join(output, "0", "items")) if chunk[3] != "step"]
        tool.expect(len(chunks) >= 8, f"{name}: only {len(chunks)} chunks are found")
        came = {}
        for chunk in chosen.sample(chunks, 8):
            begin, end = chunk[1], chunk[2]
            for offset in {begin, begin + 4, begin + 6, chosen.randrange(begin, end), end - 1}:
                told = check_flip(tool, output, chunk, offset, checked)
                came[told] = came.get(told, 0) + 1
        print(f"{name}: flipped bytes are {came}", flush=True)
        wanted = {"refused"} if checked else {"refused", "changed"}
        tool.expect(wanted <= came.keys(), f"{name}: flipped bytes are {came}")
        tool.run("verify", output, "--quiet")
    copy = tool.copy("mixtral-inner", "short")
    lost = sorted(file for file in os.listdir(os.path.join(copy, "0", "items", "d")) if file.isdecimal())[1]
    corruption.check_lost_file(tool, copy, lost, lambda path: os.truncate(path, 100), True)
    corruption.check_lost_file(tool, tool.copy("mixtral-inner", "gone"), lost, os.remove, False)


def check_refused(tool):
    """Checks that meaningless options are a usage error and leave no files."""
    source, out = os.path.join(interop.ORACLE, "qwen3"), tool.path("refused")
    commands = [["convert", source, "--to", "null", "--compress", "zstd"],
                ["plan", source, "--to", "null", "--compress", "zstd"],
                ["link", source, out, "--compress", "zstd"], ["plan", source, "--link", "--compress", "zstd"],
                *(["convert", source, out, "--compress", word] for word in NO_LEVELS)]
    for words in commands:
        done = tool.run_any(*words, "--json", "--quiet")
        said = json.loads(done.stdout).get("error", {"code": "", "message": ""})
        tool.expect(done.returncode == 2 and said["code"] == "usage" and "--compress" in said["message"],
                    f"{words[0]} {words[-3:]} ends with {done.returncode}: {said}")
    left = [name for name in os.listdir(tool.folder) if "refused" in name]
    tool.expect(not left, f"a refusal left {left}")


def check_again(tool):
    """Checks that a complete output is complete only at its own level."""
    source, out = os.path.join(interop.ORACLE, "qwen3"), tool.path("again")
    tool.run("convert", source, out, "--compress", "zstd:4", "--quiet")
    report = tool.json("convert", source, out, "--compress", "zstd:4", "--resume", "--quiet")
    tool.expect(report["already_done"], f"--resume of a complete output says {report}")
    for words in ([], ["--compress", "zstd:5"]):
        error = tool.json("convert", source, out, *words, "--resume", "--quiet", status=3)["error"]
        tool.expect(error["code"] == "conflict", f"--resume with {words} over zstd:4: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool: the program with --limits")
    parser.add_argument("fixtures", nargs="*", default=FIXTURES, help="folders of tests/oracle; those of DAMAGED are needed")
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers("ml_dtypes")
    with tempfile.TemporaryDirectory(prefix="hfshard-compress-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        for name in arguments.fixtures:
            check_fixture(tool, oracle_dirs.OracleDir(name))
        check_compressible(tool)
        check_levels(tool)
        check_stored_dtypes(tool)
        check_damage(tool)
        check_refused(tool)
        check_again(tool)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
