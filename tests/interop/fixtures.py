#!/usr/bin/env python3
"""Converts a fixture in every form and reads it back with real TensorStore and Orbax, bit for bit.

The forms: stacked and separate layers, the default mesh and fsdp=4,tensor=2, the default sizes and sizes so small that
every matrix has several chunks. Each leaf must have the shape, dtype and SHA-256 that MaxText's own converter gives it
(expected.json). Default sizes and mesh are read in every way that peers/orbax_read.py knows; the others by TensorStore,
by MaxText's load call, and by that call onto 8 simulated devices.
"""

import argparse
import itertools
import os
import sys
import tempfile

import interop

MESH = {"fsdp": 4, "tensor": 2}
LAYOUTS = {"stacked": "scanned", "separate": "unscanned"}


def check_is_cut(tool, plan, what):
    """The shrunken sizes must do what they are for."""
    for leaf in plan["leaves"]:
        if len(leaf["shape"]) > 1 and leaf["bytes"] > 64:
            tool.expect(leaf["chunks"] > 1, f"{what}: {leaf['path']} of {leaf['bytes']} bytes is one chunk")
    tool.expect(plan["units"] > 20, f"{what}: {plan['units']} units, more than 20 are wanted")
    tool.expect(plan["files"] >= 4, f"{what}: {plan['files']} data files, at least 4 are wanted")


def ways_of(readers, every):
    """Name -> function that loads the leaves."""
    ways = {"tensorstore": readers.tensorstore, "maxtext_call": readers.maxtext_call}
    if every:
        for name in ("pytree_handler", "standard_checkpointer", "checkpoint_manager", "v1_load"):
            ways[name] = getattr(readers, name)
        ways["standard_checkpointer sharded"] = lambda: readers.standard_sharded(MESH)
    ways["maxtext_call sharded"] = lambda: readers.maxtext_call(MESH)
    return ways


def check_spread(tool, arrays, what):
    """A sharded load must really spread the arrays that divide."""
    spread = sum(len(array.sharding.device_set) == 8 and not array.is_fully_replicated for array in arrays.values())
    tool.expect(2 * spread >= len(arrays), f"{what}: only {spread} of {len(arrays)} leaves are sharded")


def read_back(tool, output, expected, every, what):
    import orbax_peer as peer
    import orbax_read

    readers = orbax_read.Readers(peer.item_path(output), expected, with_state=True)
    for name, read in ways_of(readers, every).items():
        try:
            arrays = read()
        except Exception as error:  # pylint: disable=broad-except
            tool.expect(False, f"{what}, {name}: {type(error).__name__}: {str(error)[:2000]}")
            continue
        if name.endswith("sharded"):
            check_spread(tool, arrays, f"{what}, {name}")
        found = {leaf: peer.describe(value) for leaf, value in arrays.items()}
        tool.expect(peer.compare(f"{what}, {name}", expected, found) == 0, f"{what}, {name}: leaves differ")


def check_form(tool, fixture, layers, mesh, shrunken):
    import orbax_peer as peer

    source = os.path.join(interop.ORACLE, fixture)
    words = ["--layers", layers, *(["--mesh", mesh] if mesh else []), *(interop.SHRUNKEN if shrunken else [])]
    what = f"{fixture} {' '.join(words[:4 if mesh else 2])}{' shrunken' if shrunken else ''}"
    if shrunken:
        check_is_cut(tool, tool.json("plan", source, *words), what)
    output = tool.path(f"{layers}-{'mesh' if mesh else 'plain'}-{'small' if shrunken else 'usual'}")
    tool.run("convert", source, output, "--quiet", *words)
    expected = peer.load_expected(os.path.join(source, "expected.json"), LAYOUTS[layers])
    read_back(tool, output, expected, every=not mesh and not shrunken, what=what)
    tool.run("verify", output, source, "--quiet")
    tool.run("verify", output, "--quiet")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool: the program with --limits")
    parser.add_argument("fixture", help="a folder of tests/oracle")
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers()
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        mesh_text = ",".join(f"{name}={size}" for name, size in MESH.items())
        for layers, mesh, shrunken in itertools.product(LAYOUTS, ("", mesh_text), (False, True)):
            check_form(tool, arguments.fixture, layers, mesh, shrunken)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
