"""Writes the golden Orbax items of this directory with real TensorStore and Orbax; see PROVENANCE.md.

  python make_golden.py OUT

Stored values are seeded, but TensorStore names its data files at random: a new run gives other file names.
"""

import argparse
import hashlib
import json
import os
import shutil

import numpy as np
import tensorstore as ts
from ml_dtypes import bfloat16

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}
# Nodes without zstd, so small that the tree gets several levels.
CONFIG = {
    "compression": None,
    "max_inline_value_bytes": 40,
    "max_decoded_node_bytes": 400,
}


def sharded(inner, codecs):
  return [{"name": "sharding_indexed",
           "configuration": {"chunk_shape": inner, "codecs": codecs, "index_codecs": [BYTES, CRC]}}]


# name -> (values' dtype and shape, chunk, codecs, chunk key encoding)
ARRAYS = {
    "params.params.plain": (bfloat16, (5, 6), (2, 4), [BYTES, CRC], {"name": "default"}),
    "params.params.raw": (np.float32, (24, 3), (2, 3), [BYTES], {"name": "default"}),
    "params.params.shards": (np.float32, (8, 8), (4, 8), sharded([2, 4], [BYTES, CRC]), {"name": "default"}),
    "params.params.one_cell": (np.int32, (6,), (6,), sharded([6], [BYTES]), {"name": "default"}),
    "params.params.v2_keys": (np.int16, (4, 30), (2, 2), [BYTES, CRC], {"name": "v2"}),
    "params.params.dotted_keys": (np.int64, (3, 3), (2, 2), [BYTES],
                                  {"name": "default", "configuration": {"separator": "."}}),
    "params.params.scalar": (np.float64, (), (), [BYTES, CRC], {"name": "default"}),
}


def values(name, dtype, shape):
  rng = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little"))
  return rng.integers(-100, 100, size=shape).astype(dtype)


def ocdbt(path):
  return {"driver": "ocdbt", "base": {"driver": "file", "path": path + "/"}, "config": CONFIG}


def write_array(root, name, dtype, shape, chunk, codecs, keys):
  commit = ts.Transaction()
  array = ts.open({
      "driver": "zarr3",
      "kvstore": {**ocdbt(root), "path": name + "/"},
      "metadata": {
          "shape": list(shape), "data_type": np.dtype(dtype).name, "codecs": codecs,
          "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
          "chunk_key_encoding": keys,
      },
      "store_data_equal_to_fill_value": True,
      "create": True,
  }, transaction=commit).result()
  value = values(name, dtype, shape)
  array[...] = value
  commit.commit_sync()
  return {"shape": list(shape), "dtype": np.dtype(dtype).name,
          "sha256": hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}


def write_metadata(item, names):
  tree = {}
  for name in names:
    keys = name.split(".")
    tree[str(tuple(keys))] = {
        "key_metadata": [{"key": key, "key_type": 2} for key in keys],
        "value_metadata": {"value_type": "np.ndarray", "skip_deserialize": False},
    }
  with open(os.path.join(item, "_METADATA"), "w", encoding="utf-8") as file:
    json.dump({"tree_metadata": tree, "use_ocdbt": True, "use_zarr3": True,
               "store_array_data_equal_to_fill_value": True, "custom_metadata": {"made_by": "tensorstore"}}, file)


def write_expected(item, expected):
  with open(item + ".expected.json", "w", encoding="utf-8") as file:
    json.dump(expected, file, indent=1, sort_keys=True)
    file.write("\n")


def single(item):
  """Writes several commits, several levels, all forms of arrays."""
  os.makedirs(item)
  expected = {name: write_array(item, name, *form) for name, form in ARRAYS.items()}
  write_metadata(item, ARRAYS)
  write_expected(item, expected)


def merged(item):
  """Copies two writers' databases into their parent, like Orbax at the end of a save: base paths."""
  os.makedirs(item)
  names = ["params.params.plain", "params.params.shards"]
  context = ts.Context()
  parent = ts.KvStore.open(ocdbt(item), context=context).result()
  commit = ts.Transaction(atomic=True)
  expected = {}
  for process, name in enumerate(names):
    child = f"{item}/ocdbt.process_{process}"
    expected[name] = write_array(child, name, *ARRAYS[name])
    store = ts.KvStore.open(ocdbt(child), context=context).result()
    store.experimental_copy_range_to(parent.with_transaction(commit)).result()
  commit.commit_sync()
  write_metadata(item, names)
  write_expected(item, expected)


def real_orbax(item):
  """Writes Orbax's default: zstd in manifest, nodes and chunks."""
  import orbax.checkpoint as ocp

  ocp.PyTreeCheckpointer(use_zarr3=True).save(os.path.abspath(item), {"a": np.arange(4, dtype=np.int32)})
  os.remove(os.path.join(item, "commit_success.txt"))  # it holds a path of this machine


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("out")
  out = os.path.abspath(parser.parse_args().out)
  for name, make in {"single": single, "merged": merged, "real_orbax": real_orbax}.items():
    item = os.path.join(out, name)
    shutil.rmtree(item, ignore_errors=True)
    make(item)


if __name__ == "__main__":
  main()
