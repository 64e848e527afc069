"""Writes a checkpoint like real Orbax without OCDBT, full-size and sparse: a directory of zarr2 for each leaf.

Leaves and shards are MaxText's own, from a page in tests/oracle/trees. Each chunk is the shard of one device, in a
file with one hole.
"""

import itertools
import json
import math
import os
import re

TREES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle", "trees")
DTYPE, ITEM_BYTES = "bfloat16", 2


def spread(name):
    """Returns layers_0, layers_1, layers_2 for `layers_{0..2}`."""
    found = re.search(r"{(\d+)\.\.(\d+)}", name)
    if not found:
        return [name]
    first, last = map(int, found.groups())
    return [one for k in range(first, last + 1) for one in spread(name[:found.start()] + str(k) + name[found.end():])]


def leaves_of(model, layers, mesh):
    """Returns leaf -> shape and the shard of one device."""
    with open(os.path.join(TREES, f"{model}.json"), encoding="ascii") as file:
        trees = json.load(file)["trees"]
    folded = next(tree["leaves"] for tree in trees if tree["layers"] == layers)
    return {name: (facts["shape"], facts["shard"][mesh]) for leaf, facts in folded.items() for name in spread(leaf)}


def write_leaf(folder, shape, shard):
    os.mkdir(folder)
    with open(os.path.join(folder, ".zarray"), "w", encoding="ascii") as file:
        json.dump({"zarr_format": 2, "shape": shape, "chunks": shard, "dtype": DTYPE, "compressor": None, "filters": None,
                   "fill_value": None, "order": "C", "dimension_separator": "."}, file)
    for place in itertools.product(*[range(-(-extent // part)) for extent, part in zip(shape, shard, strict=True)]):
        with open(os.path.join(folder, ".".join(map(str, place))), "wb") as file:
            file.truncate(math.prod(shard) * ITEM_BYTES)


def write(path, model, layers="stacked", mesh="fsdp=16"):
    """Writes the checkpoint. Returns its bytes."""
    os.makedirs(path)
    tree, size = {}, 0
    for leaf, (shape, shard) in leaves_of(model, layers, mesh).items():
        keys = ["params", "params", *leaf.split("/")]
        tree[str(tuple(keys))] = {"key_metadata": [{"key": key, "key_type": 2} for key in keys],
                                  "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False, "write_shape": shard}}
        write_leaf(os.path.join(path, ".".join(keys)), shape, shard)
        size += math.prod(shape) * ITEM_BYTES
    with open(os.path.join(path, "_METADATA"), "w", encoding="ascii") as file:
        json.dump({"tree_metadata": tree, "use_ocdbt": False, "use_zarr3": False, "store_array_data_equal_to_fill_value": True,
                   "custom_metadata": None}, file)
    return size
