#!/usr/bin/env python3
"""Steps with several items, as real Orbax's CheckpointManager saves them: `reshard --items`.

A step of a training run has its state, a second tree, and the state of a data iterator. With `--items all` the usual
tree is laid out anew, and the manager restores every item of the result; with a name, that tree alone.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

import interop

STATE = "items"
OTHERS = ("average", "iter")


def save(root, steps):
    """A manager's root; returns what was saved last."""
    import numpy
    import orbax.checkpoint as ocp

    saved = {}
    with ocp.CheckpointManager(root, item_names=(STATE, *OTHERS)) as manager:
        for step in steps:
            state = {"step": numpy.array(step), "params": {"kernel": numpy.arange(48, dtype="f4").reshape(6, 8) + step},
                     "opt_state": {"mu": numpy.arange(48, dtype="f4").reshape(6, 8) * 3}}
            average = {"kernel": numpy.full((5, 7), step, "f4")}
            saved = {STATE: state, "average": average, "iter": {"position": step, "files": ["a", "b"]}}
            manager.save(step, args=ocp.args.Composite(**{
                STATE: ocp.args.PyTreeSave(state), "average": ocp.args.PyTreeSave(average),
                "iter": ocp.args.JsonSave(saved["iter"])}))
            manager.wait_until_finished()
    return saved


def flat(tree, prefix=""):
    for key, value in tree.items():
        yield from flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]


def check_all(tool, root, out, saved, step):
    """The manager itself finds what it needs in the step."""
    import numpy
    import orbax.checkpoint as ocp

    with ocp.CheckpointManager(out, item_names=(STATE, *OTHERS)) as manager:
        tool.expect(manager.latest_step() == step, f"the manager sees step {manager.latest_step()}")
        found = manager.restore(step, args=ocp.args.Composite(**{
            STATE: ocp.args.PyTreeRestore(), "average": ocp.args.PyTreeRestore(), "iter": ocp.args.JsonRestore()}))
    for item in (STATE, "average"):
        wanted, there = dict(flat(saved[item])), dict(flat(found[item]))
        tool.expect(wanted.keys() == there.keys(), f"{item}: {sorted(there)}")
        for name, value in wanted.items():
            tool.expect(numpy.array_equal(value, there[name]) and numpy.asarray(there[name]).dtype == value.dtype,
                        f"{item}.{name}")
    tool.expect(found["iter"] == saved["iter"], f"the iterator: {found['iter']}")
    with open(os.path.join(out, str(step), "_CHECKPOINT_METADATA"), encoding="utf-8") as file:
        handlers = json.load(file)["item_handlers"]
    with open(os.path.join(root, str(step), "_CHECKPOINT_METADATA"), encoding="utf-8") as file:
        theirs = json.load(file)["item_handlers"]
    tool.expect(handlers == theirs, f"the step names the handlers {handlers}")
    for item in OTHERS:
        for folder, _, names in os.walk(os.path.join(root, str(step), item)):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as ours, open(os.path.join(out, os.path.relpath(path, root)), "rb") as copy:
                    tool.expect(ours.read() == copy.read(), f"{path} is copied as it is")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers()
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        root, out = tool.path("run"), tool.path("out")
        saved = save(root, (3, 12))
        # Without a choice nobody knows which tree is meant.
        refused = tool.run("reshard", root, out, "--json", status=3)
        tool.expect("--items" in refused.stdout, f"two trees: {refused.stdout}")
        done = tool.run("reshard", root, out, "--mesh", "fsdp=2", "--axes", "*.kernel=mesh:fsdp,", "--items", "all")
        tool.expect("copied as they are: average, iter" in done.stdout + done.stderr, f"says what is copied: {done}")
        check_all(tool, root, out, saved, 12)
        tool.run("verify", out, root)
        # Again from what was written, as a resumed run and as workers would see it.
        tool.run("reshard", root, out, "--mesh", "fsdp=2", "--axes", "*.kernel=mesh:fsdp,", "--items", "all", "--resume")
        again = tool.path("again")
        tool.run("reshard", out, again, "--items", "all")
        check_all(tool, root, again, saved, 12)
        for share in ("1/2", "0/2"):
            tool.run("reshard", root, tool.path("shared"), "--mesh", "fsdp=2", "--axes", "*.kernel=mesh:fsdp,", "--items", "all",
                     "--worker", share)
        tool.run("finalize", tool.path("shared"))
        check_all(tool, root, tool.path("shared"), saved, 12)
        # A step that is not the last, and one tree alone.
        tool.run("reshard", root, tool.path("early"), "--items", "average", "--step", "3")
        report = tool.json("inspect", tool.path("early"))
        tool.expect([leaf["path"] for leaf in report["leaves"]] == ["kernel"], f"the average alone: {report['leaves']}")
        tool.expect(sorted(os.listdir(tool.path("early", "3"))) ==
                    ["_CHECKPOINT_METADATA", "commit_success.txt", "hfshard.json", STATE],
                    f"nothing else is there: {os.listdir(tool.path('early', '3'))}")
        tool.run("verify", tool.path("early"), root)
        # What changes beside the tree is another source, and what cannot stand beside ours is refused.
        with open(os.path.join(root, "12", "iter", "metadata"), "a", encoding="utf-8") as file:
            file.write(" ")
        shutil.rmtree(tool.path("shared"))
        tool.run("reshard", root, tool.path("dcp"), "--items", "all", "--to", "dcp", status=2)
        os.rename(os.path.join(root, "12", STATE), os.path.join(root, "12", "state"))
        os.rename(os.path.join(root, "12", "average"), os.path.join(root, "12", STATE))
        tool.run("reshard", os.path.join(root, "12", "state"), tool.path("other"), "--items", "all", status=3)
        tool.expect(not os.path.exists(tool.path("other")), "nothing is written then")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
