"""The Orbax and TensorStore peers share this: opening arrays, hashing them, comparing with expected.json."""

import contextlib
import hashlib
import json
import os


# Collections of MaxText's variables that aren't parameters. They are next to the parameters.
COLLECTIONS = ("MoEBiasVar", "Tid2EidVar")


def leaf_of(name):
  """Returns an array's name as in expected.json: below params/params/, or below params/ in another collection.

  Returns None for arrays that aren't of the model."""
  parts = name.split(".")
  if parts[0] != "params":
    return None
  return "/".join(parts[2:] if parts[1] == "params" else parts[1:])


def path_of(leaf):
  """Returns the inverse, below the first params/."""
  return leaf if leaf.startswith(COLLECTIONS) else f"params/{leaf}"


def item_path(path):
  """Returns the item directory for a root, step or item directory."""
  path = os.path.abspath(path)
  if os.path.exists(os.path.join(path, "manifest.ocdbt")):
    return path
  if os.path.isdir(os.path.join(path, "items")):
    return os.path.join(path, "items")
  steps = [name for name in os.listdir(path) if name.isdecimal()]
  return os.path.join(path, max(steps, key=int), "items")


def kvstore(item):
  return {"driver": "ocdbt", "base": {"driver": "file", "path": item + "/"}}


@contextlib.contextmanager
def flipped_bits(path, offset, mask):
  """Changes some bits of one byte of a file, as long as the block runs."""
  with open(path, "r+b") as data:
    data.seek(offset)
    byte = data.read(1)
    data.seek(offset)
    data.write(bytes([byte[0] ^ mask]))
    data.flush()
    try:
      yield
    finally:
      data.seek(offset)
      data.write(byte)


def array_names(item):
  """Returns the names of all arrays in the database, by its own listing."""
  import tensorstore as ts

  store = ts.KvStore.open(kvstore(item)).result()
  keys = [key.decode() for key in store.list().result()]
  return sorted(key[: -len("/zarr.json")] for key in keys if key.endswith("/zarr.json"))


def open_array(item, name, write=False):
  import tensorstore as ts

  spec = {
      "driver": "zarr3",
      "kvstore": {**kvstore(item), "path": name + "/"},
      "fill_missing_data_reads": False,
  }
  return ts.open(spec, open=True, read=True, write=write).result()


def describe(value):
  """Returns shape, dtype and hash of an array-like, as in expected.json."""
  import numpy as np

  value = np.asarray(value)
  return {
      "shape": list(value.shape),
      "dtype": value.dtype.name,
      "sha256": hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest(),
  }


def describe_arrays(item):
  """Describes all arrays of the database, under their own names."""
  return {name: describe(open_array(item, name).read().result()) for name in array_names(item)}


def flatten(tree, prefix=""):
  """Returns {'a/b': x} for {'a': {'b': x}}."""
  out = {}
  for key, value in tree.items():
    path = f"{prefix}{key}"
    if isinstance(value, dict):
      out.update(flatten(value, path + "/"))
    else:
      out[path] = value
  return out


def unflatten(leaves):
  out = {}
  for path, value in leaves.items():
    *parents, last = path.split("/")
    node = out
    for key in parents:
      node = node.setdefault(key, {})
    node[last] = value
  return out


def load_expected(path, layout):
  with open(path, encoding="utf-8") as file:
    expected = json.load(file)[layout]
  if expected is None:
    raise SystemExit(f"{path} has no {layout} layout")
  return {leaf: {k: facts[k] for k in ("shape", "dtype", "sha256")} for leaf, facts in expected.items()}


def compare(what, expected, found):
  """Prints a line for each difference and one verdict. Returns the number of differences. `found`: leaf ->
  describe()."""
  bad = 0
  for leaf in sorted(expected.keys() | found.keys()):
    want, have = expected.get(leaf), found.get(leaf)
    if want == have:
      continue
    bad += 1
    if have is None or want is None:
      print(f"  {leaf}: {'missing' if have is None else 'not expected'}")
      continue
    for fact in ("shape", "dtype", "sha256"):
      if want[fact] != have[fact]:
        print(f"  {leaf}: {fact} is {have[fact]}, expected {want[fact]}")
  leaves = len(expected)
  print(f"{'ok  ' if bad == 0 else 'FAIL'} {what}: {leaves - bad if bad <= leaves else 0} of {leaves} leaves equal")
  return bad
