#!/usr/bin/env python3
"""maxtext_compare.py THEIRS OURS: compares two Orbax checkpoints leaf by leaf, read by TensorStore; for maxtext.py.

Prints JSON: how many leaves below `params` have the same shape, dtype and bits; a sentence for each that does not; and
what was read.
"""

import collections
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "interop", "peers"))

import numpy as np  # noqa: E402
import orbax_peer as peer  # noqa: E402


def leaves(item):
    return {name for name in peer.array_names(item) if name.startswith("params.")}


def difference(name, items):
    """Returns how a leaf differs, or None; and its dtype and bytes."""
    theirs, ours = [peer.open_array(item, name) for item in items]
    facts = theirs.dtype.name, int(np.prod(theirs.shape)) * theirs.dtype.numpy_dtype.itemsize
    if theirs.shape != ours.shape or theirs.dtype != ours.dtype:
        return f"{theirs.dtype.name} {theirs.shape}, not {ours.dtype.name} {ours.shape}", facts
    bits = [np.ascontiguousarray(np.atleast_1d(array.read().result())).view(np.uint8) for array in (theirs, ours)]
    return (None if np.array_equal(*bits) else "other values"), facts


def main():
    items = [peer.item_path(path) for path in sys.argv[1:3]]
    names = [leaves(item) for item in items]
    differ = [f"{name}: only in one" for name in sorted(names[0] ^ names[1])]
    equal = size = 0
    dtypes = collections.Counter()
    for name in sorted(names[0] & names[1]):
        sentence, (dtype, count) = difference(name, items)
        size += count
        dtypes[dtype] += 1
        if sentence:
            differ.append(f"{name}: {sentence}")
        else:
            equal += 1
    summary = ", ".join([f"{size} bytes", *[f"{count} {dtype}" for dtype, count in dtypes.items()]])
    print(json.dumps({"equal": equal, "differ": differ, "summary": summary}))


if __name__ == "__main__":
    main()
