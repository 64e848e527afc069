#!/usr/bin/env python3
"""Checks steps with several items, as real Orbax's CheckpointManager saves them: `reshard --items`.

A step of a training run has its state, a second tree, and the state of a data iterator. With `--items all`, hfshard
reshards the usual tree, and the manager restores every item of the result. With a name, it reshards only that tree.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import interop

STATE = "items"
OTHERS = ("average", "iter")


def save(root, steps):
    """Saves a manager's root. Returns the saved values, by step."""
    import numpy
    import orbax.checkpoint as ocp

    saved = {}
    with ocp.CheckpointManager(root, item_names=(STATE, *OTHERS)) as manager:
        for step in steps:
            state = {"step": numpy.array(step), "params": {"kernel": numpy.arange(48, dtype="f4").reshape(6, 8) + step},
                     "opt_state": {"mu": numpy.arange(48, dtype="f4").reshape(6, 8) * 3}}
            average = {"kernel": numpy.full((5, 7), step, "f4")}
            saved[step] = {STATE: state, "average": average, "iter": {"position": step, "files": ["a", "b"]}}
            manager.save(step, args=ocp.args.Composite(**{
                STATE: ocp.args.PyTreeSave(state), "average": ocp.args.PyTreeSave(average),
                "iter": ocp.args.JsonSave(saved[step]["iter"])}))
            manager.wait_until_finished()
    return saved


def flat(tree, prefix=""):
    for key, value in tree.items():
        yield from flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]


def check_all(tool, root, out, saved, step):
    """Checks that the manager itself finds its data in its last step."""
    import orbax.checkpoint as ocp

    with ocp.CheckpointManager(out, item_names=(STATE, *OTHERS)) as manager:
        tool.expect(manager.latest_step() == step, f"the manager sees step {manager.latest_step()}")
    check_step(tool, root, out, saved[step], step)


def check_step(tool, root, out, saved, step):
    """Checks that the manager restores every item of a step."""
    import numpy
    import orbax.checkpoint as ocp

    with ocp.CheckpointManager(out, item_names=(STATE, *OTHERS)) as manager:
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


def check_diff(tool, root, out):
    """Checks that diff reads the tree that --items names, on each side that is a step."""
    for item in (STATE, "average"):
        same = tool.json("diff", root, out, "--items", item)
        tool.expect(same["equal"] and same["a"]["tensors"] == (1 if item == "average" else 3), f"diff --items {item}: {same}")
    beside = os.path.join(root, "12", "average")
    tool.expect(tool.json("diff", beside, out, "--items", "average")["equal"], "diff of an item and of a step with --items")
    differ = tool.json("diff", os.path.join(root, "3"), os.path.join(out, "12"), "--items", "average", status=5)
    tool.expect(differ["differing_elements"] == 35, f"another step's tree: {differ}")
    tool.run("diff", root, out, "--items", "nothing", "--quiet", status=3)
    tool.run("diff", beside, os.path.join(out, "12", "average"), "--items", "average", "--quiet", status=2)


def check_readme(tool):
    """Checks README's lines that restore on a mesh with Orbax alone: the same values, split over two devices."""
    out = tool.path("mesh")
    tool.run("convert", os.path.join(interop.ORACLE, "qwen3"), out, "--quiet")
    with open(os.path.join(interop.HERE, os.pardir, os.pardir, "README.md"), encoding="utf-8") as file:
        lines = next(part for part in file.read().split("```") if part.startswith("python\nimport jax, orbax"))
    told = """
import numpy
plain = ocp.PyTreeCheckpointer().restore("/data/out/0/items")
pairs = zip(jax.tree.leaves(arrays), jax.tree.leaves(plain), strict=True)
equal = all(numpy.array_equal(numpy.asarray(a), numpy.asarray(b)) for a, b in pairs)
print(equal, jax.tree.structure(arrays) == jax.tree.structure(plain), len(jax.tree.leaves(arrays)) > 10,
      sum(len(a.sharding.device_set) == 2 and not a.is_fully_replicated for a in jax.tree.leaves(arrays)) > 10)
"""
    program = (lines.removeprefix("python\n") + told).replace("/data/out", out)
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    tool.expect(done.stdout == "True True True True\n", f"README's lines for Orbax: {done.stdout}{done.stderr[-800:]}")


def check_metadata(tool):
    """Checks the records of a manager, its steps and a tree. hfshard copies them, or names them if it leaves them
    behind. They count in diff and verify."""
    import numpy
    import orbax.checkpoint as ocp

    def saved(name, run, step_says, metrics=None):
        root = tool.path(name)
        with ocp.CheckpointManager(root, item_names=("state", "iter"), metadata=run) as manager:
            for step in (3, 5):
                manager.save(step, custom_metadata=step_says, args=ocp.args.Composite(
                    state=ocp.args.PyTreeSave({"w": numpy.arange(8.0), "step": step}), iter=ocp.args.JsonSave({"at": step})))
        for step in ("3", "5") if metrics else ():
            path = os.path.join(root, step, "_CHECKPOINT_METADATA")
            with open(path, encoding="utf-8") as file:
                whole = {**json.load(file), "metrics": metrics}
            with open(path, "w", encoding="utf-8") as file:
                json.dump(whole, file)
        return root

    def found(root, step=None):
        with ocp.CheckpointManager(root, item_names=("state", "iter"), options=ocp.CheckpointManagerOptions(read_only=True)) as manager:
            told = manager.metadata(step) if step else manager.metadata()
            return told.custom_metadata if hasattr(told, "custom_metadata") else told

    run, says = {"run": "first", "rate": 0.1}, {"seen": 7}
    root, out, left = saved("managed", run, says, {"loss": 0.5}), tool.path("managed-out"), tool.path("managed-left")
    file_of_run = os.path.join("metadata", "_ROOT_METADATA")
    done = tool.run("reshard", root, out, "--items", "all", "--steps", "all")
    tool.expect(file_of_run in done.stderr, f"says what is copied: {done.stderr}")
    tool.expect(found(out) == run, f"the run: {found(out)}")
    tool.expect({key: value for key, value in found(out, 5).items() if key != "hfshard"} == says, f"step 5: {found(out, 5)}")
    tool.expect(tool.json("diff", root, out)["equal"], "diff of a run and of what reshard made of it")
    done = tool.run("reshard", root, left)
    tool.expect("left out" in done.stderr and file_of_run in done.stderr, f"what is left out: {done.stderr}")
    told = tool.json("diff", root, left, status=5)["structure"]
    tool.expect({item["name"] for item in told} == {"iter", file_of_run}, f"diff names it: {told}")
    for others in (("managed-run", {"run": "second"}, says, {"loss": 0.5}), ("managed-step", run, {"seen": 8}, {"loss": 0.5}),
                   ("managed-metrics", run, says, {"loss": 0.4})):
        other = saved(*others)
        told = tool.json("diff", root, other, status=5)["structure"]
        tool.expect(len(told) == 1, f"{others}: {told}")
        done = tool.run("verify", os.path.join(out, "5"), os.path.join(other, "5"), status=5)
        tool.expect(others[0] != "managed-step" or '"seen": 8 in A, 7 in B' in done.stdout, f"{others}: {done.stdout}")
        done = tool.run("reshard", other, out, "--items", "all", "--step", "5", "--overwrite", status=0 if others[1] == run else 3)
        tool.expect(found(out) == run, f"{others}: {done.stderr}")
    tool.run("reshard", root, out, "--items", "all", "--step", "5", "--overwrite")
    # The items next to the tree count, in any order of their keys.
    for name, text, status in (("same", '{ "at":5}', 0), ("other", '{"at":6}', 5)):
        other = shutil.copytree(out, tool.path("beside-" + name))
        with open(os.path.join(other, "5", "iter", "metadata"), "w", encoding="utf-8") as file:
            file.write(text)
        told = tool.json("diff", root, other, status=status)
        tool.expect(told["equal"] == (status == 0) and not told["notes"], f"{name}: {told}")
    # verify compares the files next to the arrays with the source's, and with the record.
    tool.run("verify", out, root)
    for place in (os.path.join("5", "iter", "metadata"), file_of_run):
        for where in (root, out):
            path = os.path.join(where, place)
            shutil.copy(path, tool.path("kept"))
            with open(path, "a", encoding="utf-8") as file:
                file.write(" ")
            done = tool.run("verify", out, *([root] if where == root else []), status=5)
            tool.expect(place in done.stdout, f"{path}: {done.stdout}")
            shutil.copy(tool.path("kept"), path)
    tool.run("verify", out, root)
    done = tool.run("reshard", root, tool.path("json-item"), "--items", "iter", "--step", "5", status=3)
    tool.expect("doesn't hold arrays" in done.stderr and "--items all" in done.stderr, f"an item without arrays: {done.stderr}")


def check_names(tool):
    """Checks that steps keep the names by which their manager finds them, and that their records keep their types."""
    import numpy
    import orbax.checkpoint as ocp

    says = {"best": float("inf"), "worst": float("-inf"), "none": float("nan"), "text": "NaN", "one": 1.0,
            "state": 2**127 + 1, "below": -2**80}
    for number, named in enumerate(({"step_format_fixed_length": 8}, {"step_prefix": "checkpoint"},
                                    {"step_prefix": "ck_pt", "step_format_fixed_length": 6}, {})):
        options = ocp.CheckpointManagerOptions(**named)
        root = tool.path(f"names{number}")
        with ocp.CheckpointManager(root, options=options) as manager:
            for step in (5, 123):
                manager.save(step, args=ocp.args.StandardSave({"w": numpy.arange(8.0) + step}), custom_metadata=says)
        steps = sorted(os.listdir(root))
        for words, taken in ((("--steps", "all"), (5, 123)), ((), (123,)), (("--step", "5"), (5,)), (("--output-step", "7"), (7,))):
            out = root + "-out"
            shutil.rmtree(out, ignore_errors=True)
            tool.run("reshard", root, out, *words)
            with ocp.CheckpointManager(out, options=options) as manager:
                tool.expect(tuple(manager.all_steps()) == taken, f"{named} {words}: {os.listdir(out)}, {manager.all_steps()}")
                for step in taken:
                    found = manager.restore(step, args=ocp.args.StandardRestore())["w"]
                    wanted = 123 if step == 7 else step
                    tool.expect(numpy.array_equal(found, numpy.arange(8.0) + wanted), f"{named} {words}: {found}")
                    told = dict(manager.metadata(step).custom_metadata)
                    del told["hfshard"]
                    tool.expect(repr(told) == repr({key: says[key] for key in told}) and set(told) == set(says),
                                f"{named} {words}: {told}")
            tool.run("verify", out)
            tool.run("verify", out, root)
        tool.expect(set(os.listdir(root + "-out")) != set(steps), "another step has another name")
        # A step's own directory has the step's number.
        shutil.rmtree(out)
        tool.run("reshard", os.path.join(root, steps[0]), out)
        tool.expect(os.listdir(out) == steps[:1], f"{named}, the step alone: {os.listdir(out)}")


def check_lost(tool):
    """Checks that an output that lost something isn't complete, and that a step without its record isn't skipped."""
    root, out = tool.path("run"), tool.path("lost")
    words = ("--items", "all", "--mesh", "fsdp=2", "--axes", "*.kernel=mesh:fsdp,")
    tool.run("reshard", root, out, *words, "--steps", "all")
    for number, place in enumerate((os.path.join("12", "average", "manifest.ocdbt"), os.path.join("12", "iter", "metadata"),
                                    os.path.join("12", STATE, "d", "00000"), os.path.join("12", STATE, "_METADATA"))):
        other = tool.copy("lost", "lost-too")
        if number == 1:
            with open(os.path.join(other, place), "a", encoding="utf-8") as file:
                file.write(" ")
        else:
            os.remove(os.path.join(other, place))
        for more in (("--steps", "all"), ("--step", "12", "--resume")):
            done = tool.run("reshard", root, other, *words, *more, status=3)
            tool.expect(place in done.stderr and "--overwrite" in done.stderr, f"{place} {more}: {done.stderr}")
        tool.run("reshard", root, other, *words, "--steps", "all", "--overwrite")
        tool.run("verify", other, root)
    os.remove(os.path.join(other, "12", "hfshard.json"))
    done = tool.run("verify", other, status=3)
    tool.expect("step 12" in done.stderr and "--step 3" in done.stderr, f"no record: {done.stderr}")
    tool.run("verify", other, "--step", "3")


def check_deletion(tool):
    """Checks a deletion that Orbax began and didn't finish. hfshard leaves out the item, like Orbax, and names it."""
    import jax.numpy
    import orbax.checkpoint.experimental.v1 as ocp
    from orbax.checkpoint.experimental.v1._src.deletion import metadata

    step = tool.path("deleting")
    ocp.save_checkpointables(step, {"state": {"w": jax.numpy.arange(8.0)}, "ema": {"w": jax.numpy.arange(8.0) * 2}, "data": {"position": 3}})
    whole = shutil.copytree(step, tool.path("deleted"))
    with open(os.path.join(step, "_CHECKPOINT_METADATA"), encoding="utf-8") as file:
        before = json.load(file)
    record = metadata.DeletionRecord(operation_id="0" * 32, checkpointable_name="ema", destination=None, original_metadata=before,
                                     updated_metadata=metadata.updated_metadata(before, "ema"))
    with open(os.path.join(step, metadata.RECORD_FILENAME), "w", encoding="utf-8") as file:
        json.dump(record.to_json(), file)
    try:
        ocp.load_checkpointables(step, {"ema": None})
        tool.expect(False, "Orbax loads an item that is being deleted")
    except metadata.DeletionInProgressError:
        pass
    ocp.delete(whole, checkpointable_name="ema")
    for words, status in ((("--items", "ema"), 3), (("--items", "state"), 0)):
        done = tool.run("inspect", step, *words, status=status)
        tool.expect("begun to delete" in done.stdout + done.stderr, f"{words}: {done.stdout}{done.stderr}")
    done = tool.run("inspect", os.path.join(step, "ema"), status=3)
    tool.expect("begun to delete" in done.stderr, f"the item itself: {done.stderr}")
    words = ("--items", "all", "--mesh", "fsdp=2")
    for source in (step, whole):
        tool.run("reshard", source, source + "-out", *words)
    left = [sorted(os.listdir(os.path.join(source + "-out", "0"))) for source in (step, whole)]
    tool.expect(left[0] == left[1] and "ema" not in left[0] and "data" in left[0], f"of a begun and a finished deletion: {left}")
    for text in ("{", "{}", '{"checkpointable_name": "../x"}', '{"checkpointable_name": 7}'):
        with open(os.path.join(step, "_CHECKPOINT_DELETION"), "w", encoding="utf-8") as file:
            file.write(text)
        done = tool.run("inspect", step, "--items", "state", status=3)
        tool.expect("record of a deletion" in done.stderr, f"{text}: {done.stderr}")


def main():
    arguments = interop.start(__doc__)
    import orbax.checkpoint as ocp

    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        root, out = tool.path("run"), tool.path("out")
        saved = save(root, (3, 12))
        # Without a choice, the tree is ambiguous.
        refused = tool.run("reshard", root, out, "--json", status=3)
        tool.expect("--items" in refused.stdout, f"two trees: {refused.stdout}")
        done = tool.run("reshard", root, out, "--mesh", "fsdp=2", "--axes", "*.kernel=mesh:fsdp,", "--items", "all")
        tool.expect("copied unchanged: average, iter" in done.stdout + done.stderr, f"says what is copied: {done}")
        check_all(tool, root, out, saved, 12)
        tool.run("verify", out, root)
        check_diff(tool, root, out)
        check_lost(tool)
        # The same from the output, as a resumed run and workers see it.
        tool.run("reshard", root, out, "--mesh", "fsdp=2", "--axes", "*.kernel=mesh:fsdp,", "--items", "all", "--resume")
        again = tool.path("again")
        tool.run("reshard", out, again, "--items", "all")
        check_all(tool, root, again, saved, 12)
        for share in ("1/2", "0/2"):
            tool.run("reshard", root, tool.path("shared"), "--mesh", "fsdp=2", "--axes", "*.kernel=mesh:fsdp,", "--items", "all",
                     "--worker", share)
        tool.run("finalize", tool.path("shared"))
        check_all(tool, root, tool.path("shared"), saved, 12)
        # Every step of the run, of which one already exists. The manager sees them all.
        every = tool.path("every")
        words = ("--mesh", "fsdp=2", "--axes", "*.kernel=mesh:fsdp,", "--items", "all")
        tool.run("reshard", root, every, *words, "--step", "12")
        done = tool.json("reshard", root, every, *words, "--steps", "all")["steps"]
        tool.expect([(step["step"], step["already_done"]) for step in done] == [(3, False), (12, True)], f"steps: {done}")
        with ocp.CheckpointManager(every, item_names=(STATE, *OTHERS)) as manager:
            tool.expect(list(manager.all_steps()) == [3, 12], f"the manager sees the steps {manager.all_steps()}")
        for step, values in saved.items():
            check_step(tool, root, every, values, step)
            tool.run("verify", os.path.join(every, str(step)), root)
        # A step other than the last, and only one tree.
        tool.run("reshard", root, tool.path("early"), "--items", "average", "--step", "3")
        report = tool.json("inspect", tool.path("early"))
        tool.expect([leaf["path"] for leaf in report["leaves"]] == ["kernel"], f"the average alone: {report['leaves']}")
        tool.expect(sorted(os.listdir(tool.path("early", "3"))) ==
                    ["_CHECKPOINT_METADATA", "average", "commit_success.txt", "hfshard.json"],
                    f"nothing else is there: {os.listdir(tool.path('early', '3'))}")
        tool.run("verify", tool.path("early"), root)
        # A change next to the tree makes another source. hfshard refuses files that can't be next to its own.
        with open(os.path.join(root, "12", "iter", "metadata"), "a", encoding="utf-8") as file:
            file.write(" ")
        shutil.rmtree(tool.path("shared"))
        tool.run("reshard", root, tool.path("dcp"), "--items", "all", "--to", "dcp", status=2)
        os.rename(os.path.join(root, "12", STATE), os.path.join(root, "12", "state"))
        os.rename(os.path.join(root, "12", "average"), os.path.join(root, "12", STATE))
        tool.run("reshard", os.path.join(root, "12", "state"), tool.path("other"), "--items", "all")
        items = sorted(os.listdir(os.path.join(root, "12")))
        made = sorted(set(os.listdir(tool.path("other", "12"))) - {"hfshard.json", "hfshard.origin.json"})
        tool.expect(made == items, f"of the directory of an item, all items of the step: {made}")
        check_readme(tool)
        check_metadata(tool)
        check_names(tool)
        check_deletion(tool)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
