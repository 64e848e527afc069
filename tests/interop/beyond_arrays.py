#!/usr/bin/env python3
"""Checks parts of Orbax trees beyond arrays: tuples, named tuples, strings, None, empty nodes, files outside the tree.

Real Orbax writes them, and restores the output of `reshard`. hfshard names the parts that it leaves out. `diff`
doesn't call trees equal if Orbax restores them differently.
"""

import collections
import os
import shutil
import sys
import tempfile

import interop

Pair = collections.namedtuple("Pair", "a b")
Couple = collections.namedtuple("Couple", "a b")


def checkpointer():
    import orbax.checkpoint as ocp
    from orbax.checkpoint._src.metadata import pytree_metadata_options

    options = pytree_metadata_options.PyTreeMetadataOptions(support_rich_types=True)
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(pytree_metadata_options=options))


def save(path, tree):
    import orbax.checkpoint as ocp

    checkpointer().save(path, args=ocp.args.PyTreeSave(tree))
    return path


def kinds(tree):
    """Returns a tree with the types of its nodes in place of its arrays."""
    if isinstance(tree, dict):
        return {key: kinds(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        # Orbax makes the types of named tuples again, with the module in their names.
        name = type(tree).__name__.removeprefix("__main___").removesuffix("_2")
        return (name, getattr(tree, "_fields", None), [kinds(value) for value in tree])
    return None if tree is None else "leaf"


def restored(path):
    return kinds(checkpointer().restore(path))


def check_types(tool):
    import numpy

    w = numpy.arange(12, dtype="f4").reshape(3, 4)
    # Nodes that Orbax restores as another type differ.
    for name, left, right in (("sequence", [w, w], (w, w)), ("named", Pair(w, w), {"a": w, "b": w}),
                              ("class", Pair(w, w), Couple(w, w)), ("below", {"x": (w,)}, {"x": [w]})):
        a, b = save(tool.path(name + "-a"), {"x": left, "w": w}), save(tool.path(name + "-b"), {"x": right, "w": w})
        told = tool.json("diff", a, b, status=5)["structure"]
        tool.expect(len(told) == 1 and told[0]["name"].startswith("x"), f"{name}: {told}")
        for side in (a, b):
            tool.run("reshard", side, side + "-out", "--mesh", "fsdp=2")
            item = os.path.join(side + "-out", "0", "items")
            tool.expect(restored(item) == restored(side), f"{name}: {restored(item)}")
            tool.expect(tool.json("diff", side, item)["equal"], f"{name}: what reshard wrote differs")
            tool.run("verify", side + "-out", side)
        tool.run("verify", a + "-out", b, status=5)
    # Parts of a tree keep the remaining types.
    whole = save(tool.path("whole"), {"x": Pair(w, [w, None, ()]), "y": {"q": (w, w + 1), "e": {}}, "w": w})
    wanted = {
        "--root y": {"q": ("tuple", None, ["leaf", "leaf"]), "e": {}},
        "--root x": ("Pair", ("a", "b"), ["leaf", ("list", None, ["leaf", None, ("tuple", None, [])])]),
        "--include y.*": {"y": {"q": ("tuple", None, ["leaf", "leaf"]), "e": {}}},
        "--exclude y.q.1": {"x": ("Pair", ("a", "b"), ["leaf", ("list", None, ["leaf", None, ("tuple", None, [])])]),
                            "y": {"q": ("tuple", None, ["leaf"]), "e": {}}, "w": "leaf"},
        "--exclude y.q.0": {"x": ("Pair", ("a", "b"), ["leaf", ("list", None, ["leaf", None, ("tuple", None, [])])]),
                            "y": {"q": {"1": "leaf"}, "e": {}}, "w": "leaf"}}
    for number, (words, kept) in enumerate(wanted.items()):
        out = tool.path(f"part{number}")
        tool.run("reshard", whole, out, *words.split())
        found = restored(os.path.join(out, "0", "items"))
        tool.expect(found == kept, f"{words}: {found}")
        tool.run("verify", out, whole)
    done = tool.run("convert", whole, tool.path("files"), "--to", "safetensors")
    tool.expect('tuples and named tuples become lists and dicts: "x", "y.q"' in " ".join(done.stderr.split()), done.stderr)


def check_others(tool):
    import numpy

    w = numpy.arange(6, dtype="f4")
    whole = save(tool.path("others"), {"a": w, "name": "text", "none": None, "empty": {}, "list": [], "params": {"w": w}})
    report = tool.json("inspect", whole)["metadata"]["tree nodes"]
    tool.expect(set(report) == {"name", "none", "empty", "list"}, f"inspect: {report}")
    for words, names in ((("--include", "params.*"), {"a", "name", "none", "empty", "list"}), (("--exclude", "name"), {"name"}),
                         (("--exclude", "none", "--exclude", "empty"), {"none", "empty"})):
        told = tool.json("plan", whole, "--scheme", "hf", *words)
        dropped = {name for drop in told["drops"] for name in drop["tensors"]}
        tool.expect(dropped == names, f"plan {words}: {dropped}")
        out = tool.path("some")
        shutil.rmtree(out, ignore_errors=True)
        done = tool.run("reshard", whole, out, *words)
        tool.expect("not converted" in done.stderr, f"{words}: {done.stderr}")
        found = checkpointer().restore(os.path.join(out, "0", "items"))
        tool.expect(not names & set(found), f"{words}: {sorted(found)}")
    # For two formats, diff reports what the other one can't hold.
    tool.run("reshard", whole, tool.path("dcp"), "--to", "dcp")
    for sides in ((whole, tool.path("dcp")), (tool.path("dcp"), whole)):
        notes = " ".join(tool.json("diff", *sides)["notes"])
        tool.expect(all(f'"{name}"' in notes for name in ("name", "none", "empty", "list")), f"diff {sides}: {notes}")
    # A string without its text, which Orbax refuses.
    broken = shutil.copytree(whole, tool.path("broken"))
    os.remove(os.path.join(broken, "_strings.json"))
    done = tool.run("reshard", broken, tool.path("none"), status=3)
    tool.expect("_strings.json" in done.stderr and "--exclude" in done.stderr, done.stderr)
    tool.run("reshard", broken, tool.path("without"), "--exclude", "name")
    # Files that aren't part of the tree.
    for name in ("notes.txt", "more/a"):
        os.makedirs(os.path.dirname(os.path.join(whole, name)), exist_ok=True)
        with open(os.path.join(whole, name), "w", encoding="utf-8") as file:
            file.write("text")
    done = tool.run("reshard", whole, tool.path("beside"))
    tool.expect('"more"' in done.stderr and '"notes.txt"' in done.stderr, done.stderr)


def check_states(tool):
    """Checks lists that lose an empty node, as optax's chains have them, and Python's numbers. torch must load the DCP."""
    import numpy
    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    w = numpy.arange(4, dtype="f4")
    dict_note = 'the list "opt" loses elements before others, so it becomes a dict with their numbers as keys'
    cases = {"middle": (({"count": w}, {}, {"mu": w}), {"0": {"count": w}, "2": {"mu": w}}, dict_note),
             "first": ([None, {"mu": w}], {"1": {"mu": w}}, dict_note),
             "last": ([{"mu": w}, {}], [{"mu": w}], 'empty nodes "opt.1"'),
             "inner": ([{"a": [None, w]}, w], [{"a": {"1": w}}, w], dict_note.replace("opt", "opt.0.a"))}
    for name, (state, wanted, words) in cases.items():
        tree = save(tool.path(f"state-{name}"), {"p": w, "opt": state})
        out = tool.path(f"state-{name}-dcp")
        done = tool.run("reshard", tree, out, "--to", "dcp")
        tool.expect(words in " ".join(done.stderr.split()), f"{name}: {done.stderr}")
        dcp_to_torch_save(out, out + ".pt")
        found = torch.load(out + ".pt")["opt"]
        tool.expect(repr(plain(found)) == repr(plain(wanted)), f"{name}: {found}")
        tool.run("verify", out, tree)
    numbers = save(tool.path("numbers"), {"p": w, "lr": 0.1, "n": 5, "flag": True})
    done = tool.run("reshard", numbers, tool.path("numbers-dcp"), "--to", "dcp")
    words = 'Python\'s numbers become arrays without dimensions: "flag", "lr", "n"'
    tool.expect(words in " ".join(done.stderr.split()), f"numbers: {done.stderr}")


def plain(state):
    """Returns a state with lists of numbers in place of its arrays."""
    if isinstance(state, dict):
        return {key: plain(value) for key, value in sorted(state.items())}
    return [plain(value) for value in state] if isinstance(state, list) else state.tolist()


def main():
    arguments = interop.start(__doc__)
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        check_types(tool)
        check_others(tool)
        check_states(tool)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
