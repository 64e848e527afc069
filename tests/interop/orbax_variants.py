#!/usr/bin/env python3
"""Reads every kind of checkpoint from Orbax and TensorStore bit for bit. hfshard names the kinds that it can't read.

Real Orbax writes most variants and restores them. Real TensorStore writes and reads the forms of arrays that Orbax
restores but doesn't choose. `inspect --data` finds no damage in them, and the test tool's `dump-all` gives the
values. Then the test removes or changes chunks, files and bytes. Each is an error that names key and file.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile

import interop

DTYPES = {"bool": "bool", "u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32",
          "u64": "uint64", "i64": "int64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
          "c64": "complex64", "f8_e4m3": "float8_e4m3fn", "f8_e5m2": "float8_e5m2"}
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}
GZIP = {"name": "gzip", "configuration": {"level": 6}}
ZSTD = {"name": "zstd", "configuration": {"level": 3}}


def transpose(*order):
    return {"name": "transpose", "configuration": {"order": list(order)}}


def sharded(inner, *codecs, start=False, index=(BYTES, CRC)):
    place = {"index_location": "start"} if start else {}
    return {"name": "sharding_indexed", "configuration": {"chunk_shape": inner, "codecs": list(codecs),
                                                          "index_codecs": list(index), **place}}


def noise(shape, dtype="float32", seed=1):
    """Returns values that compress a little."""
    import ml_dtypes  # pylint: disable=unused-import
    import numpy as np

    values = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 50, size=shape)
    return values.astype(np.dtype(dtype))


# -- Orbax's output


def put(value, *axes):
    """Puts an array on eight devices, 4 x 2, split along the named axes."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))
    return jax.device_put(value, NamedSharding(mesh, PartitionSpec(*axes)))


def small_tree():
    return {"params": {"params": {"cut": put(noise((8, 6)), "a", "b"), "rows": put(noise((12, 5, 3)), "a"),
                                  "same": put(noise((16, 7))), "np": noise((9, 4), "int16")}},
            "step": 3, "opt_state": {}}


def handler_of(**options):
    import orbax.checkpoint as ocp

    return ocp.PyTreeCheckpointHandler(**options)


def save_tree(path, tree, save_args=None, target=None, **options):
    """Saves a tree with the v0 interface, directly into a directory."""
    import orbax.checkpoint as ocp

    words = {} if target is None else {"ocdbt_target_data_file_size": target}
    with ocp.Checkpointer(handler_of(**options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree, save_args=save_args, **words))


def chunked(tree, **words):
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    return jax.tree.map(lambda value: ocp.SaveArgs(**(words if np.ndim(value) else {})), tree)


def standard(path):
    import orbax.checkpoint as ocp

    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, small_tree())


def tree_writer(make=small_tree, **options):
    return lambda path: save_tree(path, make(), **options)


def cut_writer(words, target=None, **options):
    def save(path):
        tree = {"wide": noise((6, 64, 40)), "cut": put(noise((8, 32, 24)), None, "a"), "step": 7}
        save_tree(path, tree, chunked(tree, **words), target, **options)
    return save


def numpy_only(path):
    import jax
    import numpy as np

    save_tree(path, jax.tree.map(np.asarray, small_tree()), use_zarr3=True)


def with_array_handler(**options):
    """Saves jax.Array leaves with a handler whose options differ from Orbax's own."""
    def save(path, tree=None):
        import jax
        import orbax.checkpoint as ocp
        from orbax.checkpoint import type_handlers

        registry = type_handlers.create_type_handler_registry(
            (jax.Array, type_handlers.ArrayHandler(**options)), (int, type_handlers.ScalarHandler()))
        tree = tree or {"same": put(noise((16, 24))), "cut": put(noise((8, 6)), "a", "b"), "step": 1}
        with ocp.Checkpointer(handler_of(type_handler_registry=registry, use_zarr3=True)) as checkpointer:
            checkpointer.save(path, args=ocp.args.PyTreeSave(tree))
    return save


def v1_save(path):
    from orbax.checkpoint import v1

    v1.save(path, small_tree())


def v1_plain(path):
    from orbax.checkpoint import v1

    options = v1.options.ArrayOptions(saving=v1.options.ArrayOptions.Saving(use_ocdbt=False))
    with v1.Context(array_options=options):
        v1.save(path, small_tree())


def v1_zarr2(path):
    from orbax.checkpoint import v1

    options = v1.options.ArrayOptions(saving=v1.options.ArrayOptions.Saving(use_zarr3=False))
    with v1.Context(array_options=options):
        v1.save(path, small_tree())


def v1_training(path):
    from orbax.checkpoint import v1

    with v1.training.Checkpointer(path) as made:
        for step in (3, 12):
            made.save(step, {"w": noise((step, 2))})


def flax_state():
    import optax
    from flax.training import train_state

    return train_state.TrainState.create(apply_fn=None, params={"params": {"w": noise((3, 4))}}, tx=optax.adam(1e-3))


def training_state():
    import jax
    import optax

    params = {"params": {"dense": {"kernel": put(noise((8, 6)), "a", "b"), "bias": put(noise((6,)))}}}
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    return {"params": params, "opt_state": optimizer.init(params), "step": jax.numpy.asarray(5)}


def keys_tree():
    import jax

    return {"typed": jax.random.key(7), "many": jax.random.split(jax.random.key(1), 3), "raw": jax.random.PRNGKey(3),
            "rbg": jax.random.key(2, impl="rbg"), "w": noise((3, 2))}


def dtypes_tree():
    return {"np": {name: noise((9, 7), name) for name in DTYPES.values()},
            "jax": {name: put(noise((8, 6), name), "a") for name in ("bfloat16", "float8_e4m3fn", "int8", "bool", "uint32")}}


def scalars_tree():
    import jax
    import numpy as np

    return {"int": 5, "float": 2.5, "big": 2**40, "np_scalar": np.float64(1.5), "np0": np.asarray(3, np.int16),
            "jax0": jax.numpy.asarray(1.25, "bfloat16"), "w": noise((2,))}


def empty_nodes_tree():
    return {"a": {}, "b": [], "c": None, "d": (), "e": {"f": {}, "g": noise((3,))}, "h": [None, noise((2, 5))]}


def lists_tree():
    return {"blocks": [{"w": noise((2 + i, 3), seed=i)} for i in range(12)], "pair": (noise((4,)), [noise((5,)), 9])}


def strings_tree():
    return {"name": "a model", "none": None, "w": noise((3, 5)), "deep": {"text": "x", "v": noise((4,))}}


def names_tree():
    return {"a.b": noise((3,)), "with space": {"quote'\"": noise((4, 2))}, "\u00fcml\u00e4ut": noise((5,)), "7": noise((6,)),
            "tilde~": noise((2, 3)), "zarr.json": noise((3, 4)), "c": {"0": noise((7,))}}


def slashes_tree():
    return {"a/b": noise((3, 2)), "a": {"x": noise((4,))}, "deep": {"b/c/d": noise((2, 5)), "end/": noise((3,))},
            "c/0": noise((6,)), "e/": noise((2, 3))}


def int_keys_tree():
    return {"layers": {i: noise((i + 2,), seed=i) for i in range(11)}}


def many_tree():
    return {f"layer_{i}": noise((1 + i % 3, 2), "int8", seed=i) for i in range(3000)}


def named_tuple_tree():
    import collections

    pair = collections.namedtuple("Pair", "left right")
    return {"state": pair(noise((3, 2)), pair(noise((4,)), 8))}


def odd_names_tree():
    """Returns keys with dots, slashes and quotes, empty ones and with a trailing dot, and None and empty nodes of
    every kind."""
    return {"a.b": {"c/d": noise((6,))}, "e": [noise((3,)), (noise((2,)), {})], "g.": noise((4,)), "": noise((2,)), "text": "t",
            "it's": {'"x"': noise((5,))}, "n": None, "q": [], "t": (), "\u00fc": {0: {"1": noise((3,))}}, "on": True,
            "q/c": noise((3,)), "q/c/0": {"..": noise((2,))}}


def nested_names_tree():
    """Returns names that begin with others. The keys of their arrays are interleaved."""
    return {"a": noise((5, 6)), "a/b": noise((4,)), "a/d": noise((3,)), "a/zz": noise((2,)), "a/b/q": noise((1,))}


def no_arrays_tree():
    return {"note": "x", "nothing": None, "empty": {}, "list": []}


def bare_leaf():
    return noise((5, 3))


def manager(steps, item=None, options=None, extra=None):
    """Returns a manager. The tree of its last step is read."""
    def save(path):
        import orbax.checkpoint as ocp

        words = ocp.CheckpointManagerOptions(**(options or {}))
        with ocp.CheckpointManager(path, options=words) as made:
            for step in steps:
                tree = {"params": {"w": noise((8, 3 + step % 5), seed=step)}, "step": step}
                args = ocp.args.PyTreeSave(tree)
                if item:
                    args = ocp.args.Composite(**{item: args}, **(extra() if extra else {}))
                made.save(step, args=args, metrics={"loss": float("nan")})
    return save


def direct_steps(path):
    """Saves like the checkpointers without items, under names of the user's."""
    for step in (9, 100):
        save_tree(os.path.join(path, f"checkpoint_{step}"), {"w": noise((step, 2))})


def json_items():
    import orbax.checkpoint as ocp

    return {"iter": ocp.args.JsonSave({"position": 4})}


def last_item(path, item):
    """Returns where the highest step of a manager has its tree."""
    steps = sorted((name for name in os.listdir(path) if name[-1].isdigit()), key=lambda name: int(name.split("_")[-1]))
    return os.path.join(path, steps[-1], item)


# Variants: how they are written, and where Orbax finds the tree below the place (nothing: there).
ORBAX = {
    "standard": (standard, None),
    "ocdbt_zarr3": (tree_writer(use_zarr3=True), None),
    "plain_zarr2": (tree_writer(use_ocdbt=False), None),
    "plain_zarr3": (tree_writer(use_ocdbt=False, use_zarr3=True), None),
    "ocdbt_zarr2_raw": (tree_writer(use_compression=False), None),
    "ocdbt_zarr3_raw": (tree_writer(use_zarr3=True, use_compression=False), None),
    "plain_zarr2_raw": (tree_writer(use_ocdbt=False, use_compression=False), None),
    "plain_zarr3_raw": (tree_writer(use_ocdbt=False, use_zarr3=True, use_compression=False), None),
    "numpy_only": (numpy_only, None),
    "subchunks_zarr3": (cut_writer({"chunk_byte_size": 4096}, use_zarr3=True), None),
    "subchunks_zarr2": (cut_writer({"chunk_byte_size": 4096}), None),
    "subchunks_plain": (cut_writer({"chunk_byte_size": 4096}, use_ocdbt=False), None),
    "shard_axes": (cut_writer({"shard_axes": (0, 2), "chunk_byte_size": 2048}, use_zarr3=True), None),
    "small_files": (cut_writer({"chunk_byte_size": 4096}, 10000, use_zarr3=True), None),
    "no_array_metadata": (with_array_handler(array_metadata_store=None), None),
    "replica_folder": (with_array_handler(use_replica_parallel=True, enable_replica_parallel_separate_folder=True), None),
    "no_replica_parallel": (with_array_handler(use_replica_parallel=False), None),
    "v1": (v1_save, "state"),
    "v1_plain": (v1_plain, "state"),
    "v1_zarr2": (v1_zarr2, "state"),
    "v1_steps": (v1_training, "12/state"),
    "flax_state": (tree_writer(flax_state), None),
    "seven_dims": (tree_writer(lambda: {"w": noise((2, 1, 3, 2, 1, 4, 2))}, use_zarr3=True), None),
    "training": (tree_writer(training_state, use_zarr3=True), None),
    "training_zarr2": (tree_writer(training_state), None),
    "prng_keys": (tree_writer(keys_tree, use_zarr3=True), None),
    "dtypes_zarr3": (tree_writer(dtypes_tree, use_zarr3=True), None),
    "dtypes_zarr2": (tree_writer(dtypes_tree), None),
    "dtypes_plain": (tree_writer(dtypes_tree, use_ocdbt=False), None),
    "scalars": (tree_writer(scalars_tree), None),
    "empty_nodes": (tree_writer(empty_nodes_tree, use_zarr3=True), None),
    "lists": (tree_writer(lists_tree), None),
    "strings": (tree_writer(strings_tree, use_zarr3=True), None),
    "names": (tree_writer(names_tree), None),
    "names_plain": (tree_writer(names_tree, use_ocdbt=False, use_zarr3=True), None),
    "odd_names": (tree_writer(odd_names_tree), None),
    "nested_names": (tree_writer(nested_names_tree, use_zarr3=True), None),
    "slashes": (tree_writer(slashes_tree, use_zarr3=True), None),
    "slashes_zarr2": (tree_writer(slashes_tree), None),
    "slashes_plain": (tree_writer(slashes_tree, use_ocdbt=False), None),
    "int_keys": (tree_writer(int_keys_tree), None),
    "named_tuples": (tree_writer(named_tuple_tree), None),
    "many": (tree_writer(many_tree, use_zarr3=True), None),
    "no_arrays": (tree_writer(no_arrays_tree), None),
    "bare_leaf": (tree_writer(bare_leaf, use_zarr3=True), None),
    "bare_leaf_plain": (tree_writer(bare_leaf, use_ocdbt=False), None),
    "steps": (manager((3, 9, 10)), "default"),
    "steps_padded": (manager((7, 100), options={"step_format_fixed_length": 8}), "default"),
    "steps_prefixed": (manager((3, 12), options={"step_prefix": "model"}), "default"),
    "steps_both": (manager((3, 12), options={"step_prefix": "my_model", "step_format_fixed_length": 6}), "default"),
    "steps_direct": (direct_steps, ""),
    "item_params": (manager((1,), "params"), "params"),
    "item_any": (manager((2,), "weights_of_mine", extra=json_items), "weights_of_mine"),
}


# Variants whose trees differ in kind from those above. Only these are resharded, since that takes time.
AGAIN = ("standard", "plain_zarr2", "v1", "v1_steps", "flax_state", "training", "prng_keys", "dtypes_zarr2", "scalars", "empty_nodes",
         "lists", "strings", "odd_names", "slashes", "nested_names", "int_keys", "named_tuples", "bare_leaf", "steps_direct", "item_any")


def flat(tree):
    """Returns dotted path -> array, from what Orbax restores, without texts and empty nodes."""
    import jax
    import numpy as np

    out = {}
    for path, value in jax.tree_util.tree_flatten_with_path(tree)[0]:
        words = [str(next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name))) for key in path]
        if isinstance(value, str):
            continue
        if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        out[".".join(words)] = np.asarray(value)
    return out


def restored_tree(item):
    import orbax.checkpoint as ocp

    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        return checkpointer.restore(item, args=ocp.args.PyTreeRestore())


def restored(item):
    return flat(restored_tree(item))


def unlike(a, b):
    """Returns differences of two restored trees: kinds of nodes and leaves, dtypes, values, shardings. Nothing if
    they are alike."""
    import jax
    import numpy as np

    (left, shape_a), (right, shape_b) = (jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: x is None) for tree in (a, b))
    if shape_a != shape_b:
        return f"{shape_a} is {shape_b}"
    for (path, x), (_, y) in zip(left, right):
        if type(x) is not type(y) or getattr(x, "dtype", None) != getattr(y, "dtype", None):
            return f"{path}: {x!r} is {y!r}"
        if isinstance(x, jax.Array) and x.sharding != y.sharding:
            return f"{path}: {x.sharding} is {y.sharding}"
        if isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        same = x == y if x is None or isinstance(x, str) else np.asarray(x).tobytes() == np.asarray(y).tobytes()
        if not same:
            return f"{path}: {x!r} is {y!r}"
    return ""


def check_again(tool, path, tree, name):
    """Checks that reshard writes the same tree. Real Orbax restores the same as from the source, and the item keeps
    its name. A step that is its tree stays one, since flax finds no other."""
    out = path + "-again"
    tool.run("reshard", path, out, "--quiet")
    step = next(os.path.join(out, entry) for entry in os.listdir(out) if entry[-1].isdigit())
    item = ""
    if not os.path.exists(os.path.join(step, "_METADATA")):
        item = next(entry for entry in os.listdir(step) if os.path.isdir(os.path.join(step, entry)))
    above, own = os.path.split(tree.rstrip("/"))
    kept = own if os.path.exists(os.path.join(above, "_CHECKPOINT_METADATA")) else "" if name == "steps_direct" else "items"
    if not kept:
        from flax.training import checkpoints

        difference = unlike(checkpoints.restore_checkpoint(path, None), checkpoints.restore_checkpoint(out, None))
        tool.expect(not difference, f"{name}: flax restores another tree: {difference}")
    tool.expect(item == kept, f"{name}: the item {kept} is {item}")
    difference = unlike(restored_tree(tree), restored_tree(os.path.join(step, item)))
    tool.expect(not difference, f"{name}, laid out anew: {difference}")
    tool.run("verify", out, "--quiet")
    tool.run("verify", out, path, "--quiet")
    with open(os.path.join(step, item, "_METADATA"), encoding="utf-8") as file:
        ours = json.load(file)["custom_metadata"]
    with open(os.path.join(tree, "_METADATA"), encoding="utf-8") as file:
        theirs = json.load(file).get("custom_metadata") or {}
    ours.pop("hfshard")
    tool.expect(ours == theirs, f"{name}: the custom metadata {theirs} are {ours}")
    shutil.rmtree(out)


# -- TensorStore's output

V3 = {  # name -> shape, chunk, codecs, and the other metadata
    "gzip": ((40, 30), (16, 30), [BYTES, GZIP], {}),
    "gzip_summed": ((40, 31), (16, 7), [BYTES, GZIP, CRC], {}),
    "sum_in_zstd": ((40, 32), (40, 32), [BYTES, CRC, ZSTD], {}),
    "sums_and_gzip": ((23, 9), (10, 4), [BYTES, CRC, GZIP, CRC], {}),
    "turned": ((20, 6, 10), (10, 6, 4), [transpose(2, 0, 1), BYTES, ZSTD], {}),
    "turned_twice": ((5, 6, 7), (5, 3, 4), [transpose(2, 0, 1), transpose(1, 0, 2), BYTES], {}),
    "turned_shards": ((12, 20, 6), (6, 10, 6), [transpose(1, 2, 0), sharded([5, 3, 2], BYTES, ZSTD)], {}),
    "turned_in_shards": ((12, 21, 6), (6, 21, 6), [sharded([3, 7, 2], transpose(2, 0, 1), BYTES)], {}),
    "turned_in_and_out": ((9, 8, 4), (9, 4, 4), [transpose(2, 0, 1), sharded([2, 3, 4], transpose(1, 2, 0), BYTES, CRC)], {}),
    "index_first": ((40, 33), (20, 33), [sharded([5, 11], BYTES, ZSTD, start=True)], {}),
    "index_first_raw": ((18, 7), (6, 7), [sharded([2, 7], BYTES, start=True)], {}),
    "index_unsummed": ((18, 8), (6, 8), [sharded([3, 4], BYTES, GZIP, index=[BYTES])], {}),
    "index_first_unsummed": ((18, 9), (6, 9), [sharded([3, 9], BYTES, CRC, start=True, index=[BYTES])], {}),
    "edges": ((5, 30), (4, 20), [sharded([1, 5], BYTES, GZIP)], {}),
    "keys_v2": ((10, 7), (4, 3), [BYTES], {"chunk_key_encoding": {"name": "v2"}}),
    "keys_v2_slash": ((10, 8), (4, 3), [BYTES, GZIP],
                      {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}}}),
    "keys_dots": ((10, 9), (4, 3), [BYTES], {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}}),
    "scalar": ((), (), [BYTES, GZIP, CRC], {}),
    "nothing": ((0, 4), (1, 4), [BYTES, ZSTD], {}),
    "long": ((3, 200000), (2, 200000), [sharded([1, 100000], BYTES, GZIP)], {}),
    "attributed": ((7, 3), (7, 3), [BYTES], {"attributes": {"a": 1}, "dimension_names": ["x", None]}),
}
V2 = {  # name -> shape, chunk, dtype, and the other metadata
    "raw": ((10, 7), (4, 3), "<f4", {}),
    "zstd": ((10, 8), (4, 3), "<i8", {"compressor": {"id": "zstd", "level": 3}}),
    "zlib": ((10, 9), (4, 9), "<u2", {"compressor": {"id": "zlib", "level": 5}}),
    "gzip": ((10, 11), (4, 9), "<f8", {"compressor": {"id": "gzip", "level": 5}}),
    "fortran": ((10, 6, 4), (3, 4, 4), "<f4", {"order": "F"}),
    "fortran_zstd": ((10, 5, 3), (3, 5, 2), "<i2", {"order": "F", "compressor": {"id": "zstd", "level": 1}}),
    "slashes": ((10, 12), (4, 5), "|u1", {"dimension_separator": "/"}),
    "scalar": ((), (), "<i4", {}),
    "nothing": ((4, 0), (4, 1), "<f2", {}),
    "bfloat16": ((6, 13), (6, 5), "bfloat16", {"fill_value": 1.5}),
    "float8": ((6, 14), (6, 5), "float8_e4m3fn", {}),
    "bool": ((6, 15), (6, 5), "|b1", {"order": "F"}),
}
V2_NAMES = {"<f4": "float32", "<i8": "int64", "<u2": "uint16", "<f8": "float64", "<i2": "int16", "|u1": "uint8", "<i4": "int32",
            "<f2": "float16", "|b1": "bool"}
SMALL_NODES = {"max_decoded_node_bytes": 1000, "max_inline_value_bytes": 40, "compression": None}
STORES = {  # where arrays go: nothing means a directory of files, otherwise the options of a database
    "directory": None,
    "database": {},
    "small_nodes": {"config": SMALL_NODES},
    "inline": {"config": {"max_inline_value_bytes": 1 << 20}},
    "numbered": {"config": {"manifest_kind": "numbered"}},
    "separate": {"value_data_prefix": "ocdbt_data/", "btree_node_data_prefix": "ocdbt_meta/"},
}


def store(item, options):
    base = {"driver": "file", "path": item + "/"}
    return base if options is None else {"driver": "ocdbt", "base": base, **options}


def below(kvstore, name):
    if kvstore["driver"] == "file":
        return {**kvstore, "path": kvstore["path"] + name + "/"}
    return {**kvstore, "path": name + "/"}


def create(kvstore, name, driver, metadata, value, elide=False):
    import tensorstore as ts

    spec = {"driver": driver, "kvstore": below(kvstore, name), "metadata": metadata, "create": True,
            "store_data_equal_to_fill_value": not elide}
    array = ts.open(spec).result()
    if value.size:
        array[...] = value
    return array


def write_v3(kvstore, name, form, dtype="int32", **words):
    shape, chunk, codecs, more = form
    metadata = {"shape": list(shape), "data_type": dtype, "codecs": codecs,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}}, **more}
    return create(kvstore, name, "zarr3", metadata, noise(shape, dtype), **words)


def write_v2(kvstore, name, form, **words):
    shape, chunk, dtype, more = form
    metadata = {"shape": list(shape), "chunks": list(chunk), "dtype": dtype, "zarr_format": 2, "filters": None, "order": "C",
                "compressor": None, "fill_value": None, "dimension_separator": ".", **more}
    return create(kvstore, name, "zarr", metadata, noise(shape, V2_NAMES.get(dtype, dtype)), **words)


def write_metadata(item, names, **members):
    """Writes _METADATA in Orbax's form."""
    os.makedirs(item, exist_ok=True)
    tree = {str(tuple(name.split("."))): {
        "key_metadata": [{"key": key, "key_type": 2} for key in name.split(".")],
        "value_metadata": {"value_type": "np.ndarray", "skip_deserialize": False}} for name in names}
    with open(os.path.join(item, "_METADATA"), "w", encoding="utf-8") as file:
        json.dump({"tree_metadata": tree, "store_array_data_equal_to_fill_value": True, "custom_metadata": None, **members}, file)


def forms_in(options, version):
    def write(item):
        kvstore = store(item, options)
        write_one, forms = (write_v3, V3) if version == 3 else (write_v2, V2)
        arrays = {f"w.{name}": write_one(kvstore, f"w.{name}", form) for name, form in forms.items()}
        write_metadata(item, arrays, use_ocdbt=options is not None, use_zarr3=version == 3)
        return arrays
    return write


def merged(item):
    """Writes three processes' databases, merged like Orbax, with both versions of zarr."""
    import tensorstore as ts

    arrays = {}
    folders = [os.path.join(item, f"ocdbt.process_{i}") for i in range(3)]
    for i, (name, form) in enumerate([*V3.items(), *V2.items()]):
        folder = store(folders[i % 3], {})
        key = f"v{3 if i < len(V3) else 2}.{name}"
        arrays[key] = (write_v3 if i < len(V3) else write_v2)(folder, key, form)
    context, commit = ts.Context(), ts.Transaction(atomic=True)
    parent = ts.KvStore.open(store(item, {}), context=context).result()
    for folder in folders:
        child = ts.KvStore.open(store(folder, {}), context=context).result()
        child.experimental_copy_range_to(parent.with_transaction(commit)).result()
    commit.commit_sync()
    write_metadata(item, arrays, use_ocdbt=True)
    return arrays


def elided(options, version):
    """Leaves out chunks that equal the fill value, and inner chunks. The metadata allow it."""
    def write(item):
        import numpy as np

        kvstore = store(item, options)
        arrays = {}
        for name, fill in (("zeros", 0), ("sevens", 7)):
            if version == 3:
                for kind, codecs in (("plain", [BYTES, ZSTD]), ("shards", [sharded([2, 5], BYTES, GZIP)])):
                    form = ((12, 10), (4, 10), codecs, {"fill_value": fill})
                    arrays[f"{name}.{kind}"] = write_v3(kvstore, f"{name}.{kind}", form, elide=True)
            else:
                arrays[f"{name}.plain"] = write_v2(kvstore, f"{name}.plain", ((12, 10), (4, 10), "<i4", {"fill_value": fill}),
                                                   elide=True)
        for name, array in arrays.items():
            value = np.full((12, 10), 7 if name.startswith("sevens") else 0, np.int32)
            value[5:7, 3] = 1
            array[...] = value
        write_metadata(item, arrays, use_ocdbt=options is not None, use_zarr3=version == 3,
                       store_array_data_equal_to_fill_value=False)
        return arrays
    return write


TENSORSTORE = {
    **{f"{name}_v{version}": forms_in(options, version) for name, options in STORES.items() for version in (2, 3)},
    "merged": merged,
    **{f"elided_{name}_v{version}": elided(STORES[name], version) for name in ("directory", "database") for version in (2, 3)},
}


# -- Comparisons


def check_values(tool, path, expected, what):
    """Checks that inspect lists the leaves and finds no damage, and that dump-all gives the values."""
    import numpy as np

    report = tool.json("inspect", path, "--data", "--quiet")
    tool.expect(report["damaged_count"] == 0, f"{what}: {report['damaged'][:3]}")
    found = {leaf["path"]: (leaf["shape"], DTYPES[leaf["dtype"]]) for leaf in report["leaves"]}
    wanted = {name: (list(value.shape), value.dtype.name) for name, value in expected.items()}
    tool.expect(found == wanted, f"{what}: {sorted(set(map(str, found.items())) ^ set(map(str, wanted.items())))[:6]}")
    if found != wanted:
        return
    tool.run("dump-all", path, tool.path("dumped"))
    with open(tool.path("dumped"), "rb") as file:
        dumped = file.read()
    at = 0
    for name in sorted(wanted, key=lambda name: name.encode()):
        size = expected[name].nbytes
        same = dumped[at:at + size] == np.ascontiguousarray(expected[name]).tobytes()
        tool.expect(same, f"{what}: {name} has other values")
        at += size
    tool.expect(at == len(dumped), f"{what}: {len(dumped)} bytes, not {at}")


@contextlib.contextmanager
def variant(tool, name):
    """Continues with the other variants if a peer refuses to write one."""
    try:
        yield tool.path(name)
    except Exception as error:  # pylint: disable=broad-exception-caught
        tool.expect(False, f"{name}: {type(error).__name__}: {str(error)[:500]}")


def check_orbax(tool):
    for name, (write, item) in ORBAX.items():
        with variant(tool, name) as path:
            write(path)
            tree = path if item is None else os.path.join(path, item) if name.startswith("v1") else last_item(path, item)
            check_values(tool, path, restored(tree), name)
            if name in AGAIN:
                check_again(tool, path, tree, name)


def check_tensorstore(tool):
    for name, write in TENSORSTORE.items():
        with variant(tool, name) as path:
            arrays = write(path)
            check_values(tool, path, {leaf: array.read().result() for leaf, array in arrays.items()}, name)


def check_without_tree(tool):
    """Checks older checkpoints without _METADATA. Directories give the names."""
    for name in ("plain_zarr2", "plain_zarr3", "slashes_plain"):
        expected = restored(tool.path(name))
        copy = tool.copy(name, name + "-old")
        os.remove(os.path.join(copy, "_METADATA"))
        expected = {leaf.removesuffix("/"): value for leaf, value in expected.items()}
        check_values(tool, copy, expected, name + " without _METADATA")
        tool.expect("not read" not in tool.run_any("inspect", copy).stderr, f"{name}: something is said to be not read")
        with open(os.path.join(copy, "checkpoint"), "wb") as file:  # older releases kept small values there
            file.write(b"\x81\xa4step\x07")
        said = tool.run_any("inspect", copy)
        tool.expect(said.returncode == 0 and 'values that the file "checkpoint" itself holds' in said.stderr, f"{name}: {said.stderr}")
    copy = tool.copy("plain_zarr3", "unsaid")
    expected = restored(copy)
    with open(os.path.join(copy, "_METADATA"), encoding="utf-8") as file:
        tree = json.load(file)
    write_json(os.path.join(copy, "_METADATA"), {**tree, "use_ocdbt": None, "use_zarr3": False})
    check_values(tool, copy, expected, "_METADATA that does not say what there is")


def check_choice(tool):
    """Checks the choice of several steps and items. hfshard never guesses."""
    import orbax.checkpoint as ocp

    path = tool.path("several")
    with ocp.CheckpointManager(path) as made:
        for step in (4, 11):
            made.save(step, args=ocp.args.Composite(params=ocp.args.PyTreeSave({"w": noise((step, 3))}),
                                                    opt=ocp.args.PyTreeSave({"m": noise((step, 5)), "v": noise((2, step))}),
                                                    iter=ocp.args.JsonSave({"position": step})))
    error = tool.json("inspect", path, status=3)["error"]
    tool.expect("opt, params" in error["message"] and "--items" in json.dumps(error), f"several items: {error}")
    for step, words in ((11, ()), (4, ("--step", "4"))):
        for item in ("opt", "params"):
            leaves = tool.json("inspect", path, "--data", "--items", item, *words, "--quiet")["leaves"]
            expected = restored(os.path.join(path, str(step), item))
            found = {leaf["path"]: leaf["shape"] for leaf in leaves}
            tool.expect(found == {name: list(value.shape) for name, value in expected.items()}, f"{step}/{item}: {found}")
            check_values(tool, os.path.join(path, str(step), item), expected, f"several: {step}/{item}")
    report = tool.json("inspect", tool.path("small_files"), "--chunks")
    for leaf in report["leaves"]:
        for piece in leaf["pieces"]:
            size = os.path.getsize(os.path.join(tool.path("small_files"), piece["file"]))
            tool.expect(piece["stored"] and piece["end_bytes"] <= size, f"small_files: {piece} of {size} bytes")


def check_sharding(tool):
    """Checks that the saved shardings of arrays decide which axes of another mesh split them."""
    small = ["--limits", "floor_bytes=8", "--dry-run"]
    path = tool.path("plain_zarr3")
    shards = {leaf["path"]: leaf["shard"] for leaf in tool.json("reshard", path, tool.path("never"), "--mesh", "a=2,b=3", *small)["leaves"]}
    tool.expect(shards["params.params.cut"] == [4, 2], f"cut along a and b: {shards}")
    tool.expect(shards["params.params.rows"] == [6, 5, 3], f"cut along a: {shards}")
    tool.expect(shards["params.params.same"] == [16, 7] and shards["params.params.np"] == [9, 4], f"whole: {shards}")
    flat = tool.path("rooted-sharding")
    save_tree(flat, {"a": put(noise((6, 4, 2)), None, "b"), "z": {"cut": put(noise((8, 6)), "a", "b")}})
    plan = tool.json("reshard", flat, tool.path("never"), "--root", "z", "--mesh", "a=2,b=3", *small)
    tool.expect({leaf["path"]: leaf["shard"] for leaf in plan["leaves"]} == {"cut": [4, 2]}, f"below a root: {plan['leaves']}")
    columns = tool.path("columns-sharding")
    save_tree(columns, {"w": put(noise((8, 6)), None, "b"), "v": noise((3,))})
    plan = tool.json("reshard", columns, tool.path("never"), "--mesh", "a=8", *small)
    tool.expect(any("doesn't shard \"w\"" in note and "\"b\"" in note for note in plan["notes"]), f"w was on b: {plan['notes']}")
    plan = tool.json("reshard", columns, tool.path("never"), "--mesh", "a=4,b=3", *small)
    tool.expect({leaf["path"]: leaf["shard"] for leaf in plan["leaves"]} == {"v": [3], "w": [8, 2]}, f"a shards nothing: {plan['leaves']}")
    tool.expect(not any("doesn't shard" in note for note in plan["notes"]), f"w is on b: {plan['notes']}")
    error = tool.json("reshard", path, tool.path("never"), "--mesh", "c=2", *small, status=2)["error"]
    tool.expect("unknown mesh axis" in error["message"], f"an axis that nothing names: {error}")
    plan = tool.json("reshard", path, tool.path("never"), "--mesh", "n=3", "--axes", "*.np=mesh:n,", *small)
    tool.expect({leaf["path"]: leaf["shard"] for leaf in plan["leaves"]}["params.params.np"] == [3, 4], "--axes names a mesh axis")
    copy = tool.copy("plain_zarr3", "torn-sharding")
    os.truncate(os.path.join(copy, "_sharding"), 40)
    plan = tool.json("reshard", copy, tool.path("never"), "--mesh", "fsdp=2", *small)
    tool.expect(any("_sharding" in note for note in plan["notes"]), f"a torn _sharding: {plan['notes']}")
    shards = {leaf["path"]: leaf["shard"] for leaf in plan["leaves"]}
    tool.expect(shards["params.params.cut"] == [8, 6], f"a torn _sharding: {shards}")


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


# -- Refusals


def refused(tool, path, code, *words):
    error = tool.json("inspect", path, "--data", status=3)["error"]
    text = json.dumps(error).replace(path, "")  # its name is random
    tool.expect(error["code"] == code and all(word in text for word in words), f"{path}: {words} are not in {text}")


def check_refused(tool):
    kvstores = {name: store(tool.path(name), None) for name in ("blosc2", "blosc3", "big2", "big3", "bz2", "int4")}
    square, chunk = (6, 4), (3, 4)
    write_v2(kvstores["blosc2"], "w", (square, chunk, "<f4", {"compressor": {"id": "blosc"}}))
    write_v2(kvstores["bz2"], "w", (square, chunk, "<f4", {"compressor": {"id": "bz2", "level": 1}}))
    write_v3(kvstores["blosc3"], "w", (square, chunk, [BYTES, {"name": "blosc", "configuration": {
        "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4}}], {}))
    create(kvstores["big2"], "w", "zarr", {"shape": [4], "chunks": [4], "dtype": ">f4", "compressor": None}, noise((4,)))
    write_v3(kvstores["big3"], "w", (square, chunk, [{"name": "bytes", "configuration": {"endian": "big"}}], {}))
    write_v3(kvstores["int4"], "w", (square, chunk, [{"name": "bytes"}], {}), "int4")
    words = {"blosc2": "blosc", "blosc3": "blosc", "bz2": "bz2", "big2": "big-endian", "big3": "big", "int4": "int4"}
    for name, word in words.items():
        write_metadata(tool.path(name), ["w"], use_ocdbt=False)
        refused(tool, tool.path(name), "unsupported", word, "w")


def check_damage(tool):
    """Checks that hfshard names lost and changed files and keys. Nothing becomes zeros."""
    chunk = os.path.join("params.params.cut", "c", "1", "1")
    cases = {"gone": (os.remove, "not_found"), "short": (lambda path: os.truncate(path, os.path.getsize(path) - 1), "corrupt")}
    for what, (change, code) in cases.items():
        copy = tool.copy("plain_zarr3", what)
        change(os.path.join(copy, chunk))
        done = tool.run_any("inspect", copy, "--data", "--quiet", "--json")
        report = json.loads(done.stdout)
        damaged = report.get("damaged") or [{"code": report["error"]["code"], "tensor": report["error"].get("tensor")}]
        said = json.dumps(report.get("error", {})) + json.dumps(damaged)
        tool.expect(done.returncode == 3 and damaged[0]["code"] == code and "params.params.cut" in said, f"{what}: {said[:300]}")
    for name, file in (("plain_zarr2", "params.params.np/.zarray"), ("ocdbt_zarr3", "manifest.ocdbt")):
        copy = tool.copy(name, "torn")
        os.truncate(os.path.join(copy, file), 20)
        refused(tool, copy, "corrupt", file)
        os.remove(os.path.join(copy, file))
        if name == "ocdbt_zarr3":
            refused(tool, copy, "corrupt", "unfinished")
        else:
            refused(tool, copy, "corrupt", file)
    copy = tool.copy("numbered_v3", "torn")
    numbered = sorted(name for name in os.listdir(copy) if name.startswith("manifest.0"))
    tool.expect(bool(numbered), "there are no numbered manifests")
    os.truncate(os.path.join(copy, numbered[-1]), 30)
    refused(tool, copy, "corrupt", numbered[-1])
    for name in numbered:
        os.remove(os.path.join(copy, name))
    refused(tool, copy, "not_found", "manifest.ocdbt")


def check_as_files(tool):
    """Checks that a tree without a model becomes safetensors under its own names. hfshard names the parts that they
    can't hold."""
    import safetensors.numpy

    for name, named in (("odd_names", ('"e.1.1"', '"text"', '"n"')), ("training", ('"opt_state.0"',))):
        out = tool.path(name + "-files")
        done = tool.run("convert", tool.path(name), out, "--to", "safetensors", "--scheme", "hf")
        tool.expect(all(word in done.stderr for word in (*named, "no config.json")), f"{name} as files: {done.stderr}")
        wanted, found = restored(tool.path(name)), safetensors.numpy.load_file(os.path.join(out, "model.safetensors"))
        same = wanted.keys() == found.keys() and all(found[key].tobytes() == value.tobytes() for key, value in wanted.items())
        tool.expect(same, f"{name} as files: {sorted(wanted.keys() ^ found.keys())}")


def check_bools(tool):
    """Checks that hfshard refuses a bool that is neither 0 nor 1, with its array's name, like TensorStore."""
    path = tool.path("bools")
    save_tree(path, {"flags": noise((8,), "bool"), "w": noise((3,))}, use_ocdbt=False, use_zarr3=True, use_compression=False)
    with open(os.path.join(path, "flags", "c", "0"), "r+b") as file:
        file.write(b"\2")
    try:
        restored(path)
        tool.expect(False, "Orbax restores a bool that is 2")
    except Exception as error:  # pylint: disable=broad-except
        tool.expect("bool" in str(error).lower() or "Invalid" in str(error), f"Orbax says something else of a bool: {error}")
    error = tool.json("reshard", path, tool.path("never"), status=3)["error"]
    tool.expect(error["code"] == "corrupt" and error["tensor"] == "flags" and "neither 0 nor 1" in error["message"], f"a bool: {error}")
    tool.run("reshard", path, tool.path("rest"), "--exclude", "flags", "--quiet")
    import safetensors.numpy

    # In a source of files too, since Orbax couldn't read the output.
    files = tool.path("bool-files")
    os.makedirs(files)
    safetensors.numpy.save_file({"flags": noise((8,), "bool")}, os.path.join(files, "model.safetensors"))
    with open(os.path.join(files, "model.safetensors"), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\3")
    for number, words in enumerate(((), ("--to", "dcp"), ("--to", "safetensors"))):
        error = tool.json("convert", files, tool.path(f"never-{number}"), "--scheme", "hf", *words, status=3)["error"]
        tool.expect(error["code"] == "corrupt" and error["tensor"] == "flags", f"a bool of files {words}: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool: the program with --limits and dump-all")
    parser.add_argument("--keep", help="write the variants here and leave them")
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers("ml_dtypes", "optax", "flax")

    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        if arguments.keep:
            shutil.rmtree(arguments.keep, ignore_errors=True)
            os.makedirs(arguments.keep)
        tool = interop.Program(arguments.hfshard, os.path.abspath(arguments.keep) if arguments.keep else folder)
        check_orbax(tool)
        check_tensorstore(tool)
        check_without_tree(tool)
        check_choice(tool)
        check_sharding(tool)
        check_refused(tool)
        check_damage(tool)
        check_bools(tool)
        check_as_files(tool)
        print(f"{len(ORBAX) + len(TENSORSTORE)} variants")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
