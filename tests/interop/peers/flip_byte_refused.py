"""Flips one byte inside every leaf of a copy of an Orbax item and asks real Orbax to load it.

The exit status is 1 if a load succeeds: with crc32c codecs, each flip must be refused. The item itself isn't
changed.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import traceback

import orbax_peer as peer


def copy_item(item, work):
  """Copies the step, so that the loaders see the same directories. Returns the item's copy."""
  step = os.path.join(work, os.path.basename(os.path.dirname(item)) or "0")
  shutil.copytree(item, os.path.join(step, "items"))
  return os.path.join(step, "items")


def find_chunk(item, name, chosen):
  """Returns (file, offset) of one byte of one chunk of an array. It searches the data files for the raw value."""
  import tensorstore as ts

  store = ts.KvStore.open(peer.kvstore(item)).result()
  keys = [k for k in store.list().result() if k.startswith(name.encode() + b"/c")]
  if not keys:
    return None
  value = store.read(chosen.choice(sorted(keys))).result().value
  if not value:
    return None
  for file in sorted(os.listdir(os.path.join(item, "d"))):
    path = os.path.join(item, "d", file)
    with open(path, "rb") as data:
      start = data.read().find(value)
    if start >= 0:
      return path, start + chosen.randrange(len(value))
  raise AssertionError(f"the bytes of {name} are in no data file")


def silence_stderr():
  """Hides the tracebacks of reads that are in flight when the first one fails. They come even after the load has
  ended."""
  with open(os.devnull, "w", encoding="utf-8") as null:
    os.dup2(null.fileno(), 2)


def load(item):
  """Returns None if every loader refuses, otherwise the name of one that doesn't."""
  import orbax.checkpoint as ocp
  from etils import epath

  loaders = {
      "PyTreeCheckpointHandler": lambda: ocp.PyTreeCheckpointHandler().restore(epath.Path(item)),
      "StandardCheckpointer": lambda: ocp.StandardCheckpointer().restore(item),
  }
  for name, restore in loaders.items():
    try:
      restore()
    except Exception as error:  # pylint: disable=broad-except
      if "mismatch" not in str(error).lower() and "checksum" not in str(error).lower():
        return f"{name} (it failed for another reason: {str(error)[:300]})"
      continue
    return name
  return None


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("item", help="root, step or item directory")
  parser.add_argument("--leaves", type=int, default=8, help="how many leaves to damage, one after the other")
  parser.add_argument("--seed", type=int, default=1)
  args = parser.parse_args()
  silence_stderr()
  chosen = random.Random(args.seed)
  item = peer.item_path(args.item)
  bad = tried = 0
  with tempfile.TemporaryDirectory() as work:
    copy = copy_item(item, work)
    names = peer.array_names(copy)
    for name in chosen.sample(names, min(args.leaves, len(names))):
      place = find_chunk(copy, name, chosen)
      if place is None:
        continue
      path, offset = place
      with peer.flipped_bits(path, offset, 0x10):
        silent = load(copy)
      tried += 1
      where = f"{name} at {os.path.relpath(path, copy)}:{offset}"
      if silent:
        bad += 1
        print(f"FAIL {where}: loaded by {silent}")
      else:
        print(f"ok   {where}: refused")
  print(f"{tried - bad} of {tried} flipped bytes were refused (seed {args.seed})")
  sys.exit(1 if bad or tried == 0 else 0)


if __name__ == "__main__":
  try:
    main()
  except Exception:  # pylint: disable=broad-except
    print(traceback.format_exc())
    sys.exit(1)
