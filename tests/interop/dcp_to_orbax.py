#!/usr/bin/env python3
"""Converts a nested state from real torch.distributed.checkpoint to an Orbax tree. Real Orbax restores the same nodes.

Lists stay lists. Keys stay whole, with any content: dots, slashes, or nothing. Only in a state without nested dicts
are names split at their dots, as everywhere. Back in a DCP, every tensor has its original name.
"""

import sys
import tempfile
import warnings

import interop


def states(torch):
    """Returns the saved states, and the trees that they come back as."""
    def tensor(number):
        return torch.arange(6.0).reshape(2, 3) + number

    eleven = [tensor(number) for number in range(11)]
    return {
        "lists": ({"model": {"w": tensor(1)}, "list": [tensor(2), tensor(3)], "deep": {"list": [{"m": tensor(4)}, {"m": tensor(5)}]}}, None),
        "eleven": ({"list": eleven}, None),
        "dots": ({"optimizer": {"state": {"a.weight": {"exp_avg": tensor(1)}, "b.weight": {"exp_avg": tensor(2)}}}}, None),
        "slashes": ({"h/i": tensor(1), "nested": {"a/b": tensor(2), "c": tensor(3)}}, None),
        "trailing": ({"g.": tensor(1), "nested": {".x": tensor(2), "": tensor(3)}}, None),
        "flat": ({"model.layers.0.weight": tensor(1), "model.layers.1.weight": tensor(2)},
                 {"model": {"layers": {"0": {"weight": tensor(1)}, "1": {"weight": tensor(2)}}}}),
        "mixed": ({"layers.0.weight": tensor(1), "scale": tensor(2), "optimizer": {"layers.0.weight": tensor(3)}}, None),
        "above": ({"scale": tensor(1), "scale.inner": tensor(2)}, None),
        "objects": ({"list": [tensor(1), "a text", tensor(2)]}, {"list": {"0": tensor(1), "2": tensor(2)}}),
        "nested": ({"model": {"0": tensor(1), "b": {"w": tensor(2)}}}, None),
        "model": ({"model": {"layers.0.weight": tensor(1)}, "step": torch.tensor(7)}, None),
    }


def same(numpy, found, wanted):
    if isinstance(wanted, dict):
        return isinstance(found, dict) and found.keys() == wanted.keys() and all(same(numpy, found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return isinstance(found, (list, tuple)) and len(found) == len(wanted) and all(map(lambda a, b: same(numpy, a, b), found, wanted))
    return numpy.array_equal(numpy.asarray(found), wanted.numpy())


def main():
    arguments = interop.start(__doc__)
    import numpy
    import orbax.checkpoint as ocp
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        for name, (saved, wanted) in states(torch).items():
            source, out, back = (tool.path(name + suffix) for suffix in ("", "-orbax", "-back"))
            dcp.save(saved, checkpoint_id=source, no_dist=True)
            done = tool.run("reshard", source, out, "--to", "orbax")
            found = ocp.PyTreeCheckpointer().restore(out + "/0/items")
            tool.expect(same(numpy, found, saved if wanted is None else wanted), f"{name}: {found}")
            tool.expect(("becomes a dict" in done.stderr) == (name == "objects"), f"{name}: {done.stderr}")
            tool.run("verify", out, source)
            told = tool.json("diff", source, out, status=5 if name == "objects" else 0)["structure"]
            tool.expect([item["name"] for item in told] == (["list"] if name == "objects" else []), f"{name}: diff: {told}")
            tool.run("reshard", out, back, "--to", "dcp")
            metadata = [dcp.FileSystemReader(path).read_metadata() for path in (source, back)]
            names = [set(each.state_dict_metadata) for each in metadata]
            tool.expect(names[1] == names[0] - {"list.1"} if name == "objects" else names[0] == names[1], f"{name}: {names}")
            if name != "objects":  # lists and dicts of Orbax become those of the state again
                tool.expect(metadata[0].planner_data == metadata[1].planner_data, f"{name}: {metadata[1].planner_data}")
        # A tree from Orbax becomes a nested state, with or without lists.
        for name, tree in (("dicts", {"model": {"0": {"w": numpy.ones(3)}}, "step": numpy.ones(1)}), ("list", {"model": [numpy.ones(3)]})):
            ocp.PyTreeCheckpointer().save(tool.path(name + "-tree"), tree)
            tool.run("reshard", tool.path(name + "-tree"), tool.path(name + "-dcp"), "--to", "dcp")
            dcp_to_torch_save(tool.path(name + "-dcp"), tool.path(name + ".pt"))
            found = torch.load(tool.path(name + ".pt"))
            tool.expect(same(numpy, tree, found), f"{name}: {found}")
            told = tool.json("diff", tool.path(name + "-tree"), tool.path(name + "-dcp"))
            tool.expect(told["equal"], f"{name}: diff: {told}")
        # The root of a state is a dict.
        for name, tree in (("one", [numpy.ones(3)]), ("two", (numpy.ones(3), numpy.ones(2))), ("deep", [numpy.ones(3), ({"a": numpy.ones(2)},)])):
            source, out = tool.path(f"root-{name}"), tool.path(f"root-{name}-dcp")
            ocp.PyTreeCheckpointer().save(source, tree)
            done = tool.run("convert", source, out, "--to", "dcp")
            tool.expect("the root is a list" in done.stderr, f"root {name}: {done.stderr}")
            told = tool.json("diff", source, out, status=5)["structure"]
            tool.expect([(item["name"], item["what"]) for item in told] == [("", "a list in A, a dict in B")], f"root {name}: diff: {told}")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
