#!/usr/bin/env python3
"""Reads the output of real Orbax and TensorStore, zstd and merged databases included, bit for bit.

`inspect --json` must list the leaves, shapes, dtypes and codecs. `inspect --data` finds no damage. The test tool's
`dump` gives the values. If Orbax loads a conversion and saves it again in its own form, it still passes `verify OUT
SOURCE`. Then the test flips bytes and truncates data files. hfshard always finds damage in chunks with a crc32c. In
a zstd frame without one, it finds damage to the structure, and only values can change elsewhere.
"""

import argparse
import json
import os
import sys
import tempfile

import interop

DTYPES = {"bool": "bool", "u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32",
          "u64": "uint64", "i64": "int64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
          "c64": "complex64", "f8_e4m3": "float8_e4m3fn", "f8_e5m2": "float8_e5m2"}
ORBAX = ["sharding_indexed", "bytes", "zstd"]
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}


def zstd(level=3, checksum=False):
    return {"name": "zstd", "configuration": {"level": level, "checksum": checksum}}


def sharded(inner, *codecs):
    return [{"name": "sharding_indexed",
             "configuration": {"chunk_shape": inner, "codecs": [BYTES, *codecs], "index_codecs": [BYTES, CRC]}}]


# Forms that TensorStore writes, and that Orbax restores but doesn't choose: shape, chunk, codecs, and hfshard's names
# for them.
FORMS = {
    "plain": ((40, 30), (16, 30), [BYTES, zstd()], ["bytes", "zstd"]),
    "checked": ((40, 30), (16, 7), [BYTES, zstd(-5), CRC], ["bytes", "zstd", "crc32c"]),
    "summed": ((40, 30), (40, 30), [BYTES, zstd(19, checksum=True)], ["bytes", "zstd"]),
    "turned": ((20, 6, 10), (10, 6, 4), [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, BYTES, zstd()],
               ["transpose", "bytes", "zstd"]),
    "shards": ((40, 30), (20, 30), sharded([5, 10], zstd()), ORBAX),
    "checked_shards": ((40, 30), (20, 30), sharded([5, 15], zstd(1), CRC), [*ORBAX, "crc32c"]),
    "one_cell": ((40, 30), (20, 30), sharded([20, 30], zstd(22)), ORBAX),
    "raw_edges": ((5, 30), (4, 20), sharded([1, 5]), ["sharding_indexed", "bytes"]),
    "checked_edges": ((5, 30), (4, 20), sharded([1, 5], CRC), ["sharding_indexed", "bytes", "crc32c"]),
    "edges": ((5, 30), (4, 20), sharded([1, 5], zstd()), ORBAX),
    "scalar": ((), (), [BYTES, zstd(), CRC], ["bytes", "zstd", "crc32c"]),
    "long": ((3, 100000), (2, 100000), sharded([1, 50000], zstd()), ORBAX),
}


def random_array(rng, shape, dtype):
    """Returns values that compress a little."""
    import numpy as np

    return rng.integers(0, 2 if dtype == "bool" else 50, size=shape).astype(np.dtype(dtype))


def orbax_tree(rng):
    """Returns leaves of every dtype: on 8 devices, split and whole, and as numpy arrays. Scalars and zeros too."""
    import jax
    import ml_dtypes  # pylint: disable=unused-import
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))
    put = lambda value, *axes: jax.device_put(value, NamedSharding(mesh, PartitionSpec(*axes)))
    weights = {f"np_{name}": random_array(rng, (9, 7), name) for name in DTYPES.values()}
    for name in ("bfloat16", "float32", "int8", "float8_e4m3fn"):
        weights[f"cut_{name}"] = put(random_array(rng, (64, 48), name), "a", "b")
        weights[f"whole_{name}"] = put(random_array(rng, (33, 7), name))
    weights["zeros"] = put(np.zeros((64, 48), np.float32), "a")
    weights["np_zeros"] = np.zeros((500, 500), np.float32)
    weights["noise"] = rng.bytes(100000)
    weights["noise"] = np.frombuffer(weights["noise"], np.uint8).reshape(400, 250)
    return {"step": 3, "opt_state": {}, "params": {"params": weights}, "scale": 2.5}


def leaves_of(tree):
    """Returns dotted path -> array, as others read it."""
    import numpy as np
    import orbax_peer as peer

    return {path.replace("/", "."): np.asarray(value) for path, value in peer.flatten(tree).items()}


def save_pytree(path, tree):
    import orbax.checkpoint as ocp

    ocp.PyTreeCheckpointer(use_zarr3=True).save(path, tree)


def save_numpy(path, tree):
    import jax
    import numpy as np

    save_pytree(path, jax.tree.map(np.asarray, tree))


def save_manager(path, tree):
    """Saves like MaxText: chunks and data files of limited size, under a step and `items`."""
    import jax
    import orbax.checkpoint as ocp

    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)
    arguments = ocp.args.PyTreeSave(tree, save_args=jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=600), tree),
                                    ocdbt_target_data_file_size=4000)
    with ocp.CheckpointManager(path, item_names=("items",), item_handlers={"items": handler}) as manager:
        manager.save(12, args=ocp.args.Composite(items=arguments))


def save_v1(path, tree):
    from orbax.checkpoint import v1

    v1.save(path, tree)


WRITERS = {"pytree": save_pytree, "numpy": save_numpy, "manager": save_manager, "v1": save_v1}


def check_leaves(tool, path, expected, codecs, what):
    """Checks that inspect lists the leaves and finds no damage, and that dump gives the values. `codecs`: leaf ->
    names."""
    import numpy as np

    report = tool.json("inspect", path, "--data", "--quiet")
    tool.expect(report["damaged_count"] == 0 and report["data_read"], f"{what}: {report['damaged'][:3]}")
    found = {leaf["path"]: leaf for leaf in report["leaves"]}
    tool.expect(found.keys() == expected.keys(), f"{what}: leaves {sorted(found.keys() ^ expected.keys())} differ")
    for name in sorted(found.keys() & expected.keys()):
        leaf, value = found[name], expected[name]
        said = (leaf["shape"], DTYPES[leaf["dtype"]], leaf["codecs"])
        wanted = (list(value.shape), value.dtype.name, codecs(name))
        tool.expect(said == wanted, f"{what}: {name} is {said}, not {wanted}")
        tool.expect(dump(tool, path, name) == np.ascontiguousarray(value).tobytes(), f"{what}: {name} has other values")


def dump(tool, path, leaf):
    tool.run("dump", path, leaf, tool.path("dumped"))
    with open(tool.path("dumped"), "rb") as file:
        return file.read()


def check_writers(tool, rng):
    tree = orbax_tree(rng)
    expected = leaves_of(tree)
    for name, save in WRITERS.items():
        save(tool.path(name), tree)
        check_leaves(tool, tool.path(name), expected, lambda _: ORBAX, name)
        text = tool.run("inspect", tool.path(name)).stdout
        tool.expect("sharding_indexed + bytes + zstd" in text, f"{name}: inspect says\n{text}")
    manager = tool.json("inspect", tool.path("manager", "12", "items"))
    tool.expect(sum(leaf["chunks"] > 1 for leaf in manager["leaves"]) > 5, "manager: leaves have one chunk each")
    merged = os.path.join(tool.path("manager"), "12", "items", "ocdbt.process_0", "d")
    tool.expect(len(os.listdir(merged)) > 2, "manager: the data is in one file")


def database(path, small):
    """Opens a database. `small`: nodes so small that the tree gets several levels. All of them are zstd."""
    config = {"max_decoded_node_bytes": 500, "max_inline_value_bytes": 40} if small else {}
    return {"driver": "ocdbt", "base": {"driver": "file", "path": path + "/"}, "config": config}


def write_form(item, name, value, small):
    """Writes one array in one of FORMS."""
    import tensorstore as ts

    shape, chunk, codecs, _ = FORMS[name]
    array = ts.open({
        "driver": "zarr3", "kvstore": {**database(item, small), "path": f"params.{name}/"}, "create": True,
        "store_data_equal_to_fill_value": True,
        "metadata": {"shape": list(shape), "data_type": value.dtype.name, "codecs": codecs,
                     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}}}}).result()
    array[...] = value


def write_tree(item, names):
    """Writes _METADATA in Orbax's form."""
    tree = {str(("params", name)): {
        "key_metadata": [{"key": key, "key_type": 2} for key in ("params", name)],
        "value_metadata": {"value_type": "np.ndarray", "skip_deserialize": False}} for name in names}
    with open(os.path.join(item, "_METADATA"), "w", encoding="utf-8") as file:
        json.dump({"tree_metadata": tree, "use_ocdbt": True, "use_zarr3": True,
                   "store_array_data_equal_to_fill_value": True, "custom_metadata": {}}, file)


def write_forms(item, rng, processes, small):
    """Writes all forms. With several processes, each writes its share, and the databases are merged like in Orbax."""
    import tensorstore as ts

    values = {name: random_array(rng, form[0], "int32") for name, form in FORMS.items()}
    folders = [os.path.join(item, f"ocdbt.process_{i}") for i in range(processes)] if processes > 1 else [item]
    for i, name in enumerate(FORMS):
        folder = folders[i % len(folders)]
        os.makedirs(folder, exist_ok=True)
        write_form(folder, name, values[name], small)
    if processes > 1:
        context, commit = ts.Context(), ts.Transaction(atomic=True)
        parent = ts.KvStore.open(database(item, small), context=context).result()
        for folder in folders:
            child = ts.KvStore.open(database(folder, small), context=context).result()
            child.experimental_copy_range_to(parent.with_transaction(commit)).result()
        commit.commit_sync()
    write_tree(item, FORMS)
    return {f"params.{name}": value for name, value in values.items()}


def check_forms(tool, rng):
    for what, processes, small in (("forms", 1, False), ("small-nodes", 1, True), ("merged", 3, False)):
        expected = write_forms(tool.path(what), rng, processes, small)
        check_leaves(tool, tool.path(what), expected, lambda leaf: FORMS[leaf.removeprefix("params.")][3], what)


def check_saved_again(tool):
    """Lets Orbax load hfshard's output and save it in its own way: other chunks, zstd, several files. The values are
    the same."""
    import jax
    import orbax.checkpoint as ocp

    source = os.path.join(interop.ORACLE, "qwen3")
    ours, theirs = tool.path("ours"), tool.path("theirs")
    tool.run("convert", source, ours, "--quiet")
    tree = ocp.PyTreeCheckpointer(use_zarr3=True).restore(os.path.join(ours, "0", "items"))
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)
    arguments = ocp.args.PyTreeSave(tree, save_args=jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=3000), tree))
    with ocp.CheckpointManager(theirs, item_names=("items",), item_handlers={"items": handler}) as manager:
        manager.save(0, args=ocp.args.Composite(items=arguments))
    with open(os.path.join(ours, "0", "hfshard.json"), encoding="utf-8") as file:
        record = json.load(file)
    for sums in ("files", "side_files", "record_sha256"):  # Orbax wrote other metadata
        record.pop(sums)
    with open(os.path.join(theirs, "0", "hfshard.json"), "w", encoding="utf-8") as file:
        json.dump(record, file)
    leaves = tool.json("inspect", theirs)["leaves"]
    tool.expect(all(leaf["codecs"] == ORBAX for leaf in leaves), "saved again: other codecs than Orbax's")
    for words in ([theirs], [theirs, source]):
        report = tool.json("verify", *words, "--quiet")
        tool.expect(report["differences"] == [], f"saved again: verify says {report['differences'][:3]}")


def chunk_places(item):
    """Returns [(array, chunk key, file, begin, end)] of the chunks in one data file, by TensorStore's values."""
    import orbax_peer as peer
    import tensorstore as ts

    store = ts.KvStore.open(peer.kvstore(item)).result()
    files = {}
    for folder, _, names in os.walk(item):
        for name in sorted(names):
            if os.path.basename(folder) == "d":
                with open(os.path.join(folder, name), "rb") as file:
                    files[os.path.join(folder, name)] = file.read()
    out = []
    for key in sorted(entry.decode() for entry in store.list().result()):
        array, _, chunk = key.rpartition("/c/")
        value = store.read(key).result().value
        found = [(path, data.find(value)) for path, data in files.items() if value in data] if array else []
        if len(found) == 1 and len(value) > 100:
            path, begin = found[0]
            out.append((array, [int(part) for part in chunk.split("/")], path, begin, begin + len(value)))
    return out


def flipped(tool, item, place, offset, good):
    """Returns inspect's finding for one flipped bit, or None. Without one, the caller checks the leaf's values."""
    import orbax_peer as peer

    array, chunk, path, begin, end = place
    with peer.flipped_bits(path, offset, 0x10):
        report = json.loads(tool.run_any("inspect", item, "--data", "--quiet", "--json").stdout)
        same = report["damaged_count"] > 0 or dump(tool, item, array) == good
    if report["damaged_count"] == 0:
        return None, same
    said = report["damaged"][0]
    right = (report["damaged_count"] == 1 and said["tensor"] == array and said["chunk"] == chunk
             and said["code"] == "corrupt" and path.endswith(said["file"])
             and begin <= said["begin_bytes"] < said["end_bytes"] <= end)
    return right or said, same


def check_flips(tool, item, arrays, expected, always, positions):
    """Flips bits. `always`: inspect must find every flip. Otherwise, an unnoticed one changes only values."""
    import numpy as np

    places = {place[0]: place for place in chunk_places(item)}
    found = silent = 0
    for array in arrays:
        tool.expect(array in places, f"{array} has no chunk of its own in a file")
        place = places[array]
        good = np.ascontiguousarray(expected[array]).tobytes()
        step = max(1, (place[4] - place[3]) // positions)
        for offset in [*range(place[3], place[4], step), place[4] - 1]:
            said, same = flipped(tool, item, place, offset, good)
            what = f"{array} flipped at {offset - place[3]} of {place[4] - place[3]}"
            tool.expect(said is None or said is True, f"{what}: inspect says {said}")
            tool.expect(said is not None or not always, f"{what}: not found")
            found, silent = found + (said is not None), silent + (said is None and not same)
    return found, silent


def check_damage(tool):
    """Damages the forms of check_forms and a tree of Orbax's own."""
    import orbax_peer as peer

    item = tool.path("forms")
    expected = {name: peer.open_array(item, name).read().result() for name in peer.array_names(item)}
    found, silent = check_flips(tool, item, ["params.checked", "params.checked_shards"], expected, True, 30)
    print(f"with crc32c: {found} of {found + silent} flipped bytes are found")
    found, silent = check_flips(tool, item, ["params.plain", "params.shards", "params.one_cell"], expected, False, 30)
    print(f"zstd alone: {found} flipped bytes are found, {silent} give other values, as they do in Orbax")
    tool.expect(found > 0, "zstd alone: no flipped byte is found")
    for form in ("forms", "pytree"):
        ends = {}  # of the chunks; unused index nodes can follow them
        for _, _, path, _, end in chunk_places(tool.path(form)):
            ends[path] = max(end, ends.get(path, 0))
        for number, (path, end) in enumerate(sorted(ends.items())[:3]):
            relative = os.path.relpath(path, tool.path(form))
            for what, lose in (("short", lambda at, size=end - 1: os.truncate(at, size)), ("gone", os.remove)):
                copy = tool.copy(form, f"{form}-{what}-{number}")
                lose(os.path.join(copy, relative))
                done = tool.run_any("inspect", copy, "--data", "--quiet")
                tool.expect(done.returncode == 3 and relative in done.stdout + done.stderr,
                            f"{relative} is {what}: inspect ends with {done.returncode}\n{done.stdout}{done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool: the program with --limits and dump")
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers("ml_dtypes")
    import numpy as np

    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        rng = np.random.default_rng(20240607)
        check_writers(tool, rng)
        check_forms(tool, rng)
        check_saved_again(tool)
        check_damage(tool)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
