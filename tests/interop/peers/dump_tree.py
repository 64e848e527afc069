"""Prints leaf, shape, dtype, chunk shape and sha256 of every array of an Orbax item, as TensorStore reads it."""

import argparse
import json

import orbax_peer as peer


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("item", help="root, step or item directory")
  args = parser.parse_args()
  item = peer.item_path(args.item)
  out = {}
  for name in peer.array_names(item):
    array = peer.open_array(item, name)
    facts = peer.describe(array.read().result())
    facts["chunk"] = list(array.chunk_layout.write_chunk.shape or ())
    facts["read_chunk"] = list(array.chunk_layout.read_chunk.shape or ())
    out[name] = facts
  print(json.dumps(out, indent=2, sort_keys=True))


if __name__ == "__main__":
  main()
