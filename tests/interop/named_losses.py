#!/usr/bin/env python3
"""Checks that whatever a conversion leaves out is compared or named: parts of a tree beside a model's arrays, copies of
other ranks, files beside a checkpoint. Real Orbax and torch write the inputs.

A tree of a model becomes files, a DCP or another layout, which have no place for strings, empty nodes and custom metadata.
Ranks that write their own metadata store tensors several times: equal copies are compared and differing ones named. A
reshard keeps the dtypes that the family keeps wider, and numbers that stand for integers aren't rounded.
"""

import copy
import os
import pickle
import shutil
import sys
import tempfile

import interop

LEFT_OUT = "left out, because the output"


def note(done, words):
    """Returns the note that has these words, or an empty text."""
    lines = [line for line in done.stderr.splitlines() if words in line]
    return lines[0] if lines else ""


class Losses:
    def __init__(self, tool):
        self.tool = tool

    def expect(self, condition, sentence, done):
        self.tool.expect(condition, f"{sentence}\n{' '.join(done.args)}\n{done.stdout}{done.stderr}")

    def convert(self, *words, status=0):
        shutil.rmtree(self.tool.path("out"), ignore_errors=True)
        return self.tool.run(*words[:2], self.tool.path("out"), *words[2:], status=status)

    def beyond_the_arrays(self):
        """A string, None and an empty dict in and beside the model's parameters, and custom metadata."""
        import numpy as np
        import orbax.checkpoint as ocp

        model, tree = os.path.join(interop.ORACLE, "qwen3"), self.tool.path("tree")
        self.tool.run("convert", model, tree, "--quiet")
        saved, plain = self.tool.path("saved"), self.tool.path("plain")
        with ocp.PyTreeCheckpointer() as checkpointer:
            whole = checkpointer.restore(os.path.join(tree, "0", "items"))
            checkpointer.save(plain, copy.deepcopy(whole))
            whole |= {"note": "hello", "nothing": None, "opt_state": [{"mu": np.ones(3, np.float32), "gone": None}, {}]}
            whole["params"]["params"]["decoder"]["act"] = "silu"
            checkpointer.save(saved, whole, save_args=None)
        ways = (("--to", "safetensors"), ("--to", "dcp", "--scheme", "torchtitan"), ("--layers", "separate"))
        for way in ways:
            done = self.convert("convert", saved, "--config", model, *way)
            said = note(done, f"{LEFT_OUT} holds only arrays")
            for name in ("note", "nothing", "params.params.decoder.act"):
                self.expect(f'"{name}"' in said, f"{way}: {name} is left out in silence", done)
            self.expect("opt_state" not in said, f"{way}: a part of the optimizer is named as a part of the model", done)
            done = self.convert("convert", plain, "--config", model, *way)
            self.expect(LEFT_OUT not in done.stderr, f"{way}: a note without a loss", done)
        run = self.tool.path("run")
        options = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
        with ocp.CheckpointManager(run, options=options) as manager, ocp.PyTreeCheckpointer() as checkpointer:
            manager.save(4, args=ocp.args.Composite(items=ocp.args.PyTreeSave(checkpointer.restore(plain))),
                         custom_metadata={"lr": 1e-4, "scan_layers": True})
        done = self.convert("convert", run, "--config", model, "--to", "safetensors")
        said = note(done, f"{LEFT_OUT} has no place for it: the custom metadata")
        self.expect('"lr"' in said and "scan_layers" not in said, "custom metadata", done)

    def kept_wider(self):
        """bf16 can't hold the ids of experts, nor what the family keeps in f32."""
        model, tree = os.path.join(interop.ORACLE, "deepseek4"), self.tool.path("wide")
        self.tool.run("convert", model, tree, "--dtype", "f32", "--quiet")
        self.tool.run("convert", model, self.tool.path("wanted"), "--dtype", "bf16", "--quiet")
        narrow = self.tool.path("narrow")
        self.tool.run("reshard", tree, narrow, "--dtype", "bf16", "--quiet")
        self.tool.run("diff", narrow, self.tool.path("wanted"))
        self.convert("convert", narrow, "--to", "safetensors")
        shutil.rmtree(narrow)
        done = self.tool.run("reshard", tree, narrow, "--dtype", "bf16", "--cast", "*=bf16", "--json")
        self.expect(done.returncode == 0, "the user's own cast wins", done)
        done = self.tool.run("diff", narrow, self.tool.path("wanted"), status=5)

    def integers(self):
        """An id that training has moved isn't rounded to another expert."""
        import numpy as np
        import orbax.checkpoint as ocp

        moved, model = self.tool.path("moved"), os.path.join(interop.ORACLE, "deepseek4")
        name = next(leaf["path"] for leaf in self.tool.json("inspect", self.tool.path("wide"))["leaves"] if "tid2eid" in leaf["path"].lower())
        with ocp.PyTreeCheckpointer() as checkpointer:
            tree = checkpointer.restore(os.path.join(self.tool.path("wide"), "0", "items"))
            *above, last = name.split(".")
            at = tree
            for key in above:
                at = at[key]
            values = np.array(at[last])
            values.flat[0] += 0.5
            at[last] = values
            checkpointer.save(moved, tree)
        done = self.convert("convert", moved, "--config", model, "--to", "safetensors", "--dtype", "f32", status=3)
        self.expect(name in done.stderr, "a rounded id", done)
        self.expect(not os.path.exists(self.tool.path("out")), "an output", done)

    def ranks(self, dcp):
        """Copies of tensors that each rank stored with its own metadata."""
        import torch

        def save(rank, state):
            part = self.tool.path(f"rank{rank}")
            dcp.save(state, storage_writer=dcp.FileSystemWriter(part), no_dist=True, use_collectives=False)
            with open(os.path.join(part, "__0.metadata"), "rb") as file:
                metadata = pickle.load(file)
            for info in metadata.storage_data.values():
                info.relative_path = info.relative_path.replace("__0_", f"__{rank}_")
            with open(os.path.join(self.tool.path("ranks"), f"__{rank}.metadata"), "wb") as file:
                pickle.dump(metadata, file)
            for name in os.listdir(part):
                if name.endswith(".distcp"):
                    shutil.move(os.path.join(part, name), self.tool.path("ranks", name.replace("__0_", f"__{rank}_")))
            shutil.rmtree(part)

        for differs in (False, True):
            os.mkdir(self.tool.path("ranks"))
            for rank in (0, 1):
                save(rank, {"same": torch.arange(12.0).reshape(3, 4), "rng": torch.full((5,), rank * differs)})
            done = self.convert("reshard", self.tool.path("ranks"))
            said = note(done, "ranks stored different values under one name")
            self.expect(bool(said) == differs and "same" not in said and ("rng" in said or not differs), f"copies that differ: {differs}", done)
            self.expect("can't compare" not in done.stderr, "copies that could be compared", done)
            shutil.rmtree(self.tool.path("ranks"))

    def files_beside(self, dcp):
        import torch

        state = {"a": torch.ones(3, 4)}
        path = self.tool.path("beside")
        dcp.save(state, checkpoint_id=path, no_dist=True)
        self.expect_files(path, ("reshard",), ("__9_0.distcp", "dataloader.pt", "train.json", "sub/"))
        shutil.rmtree(path)
        os.mkdir(path)
        torch.save(state, os.path.join(path, "pytorch_model.bin"))
        names = ("optimizer.bin", "random_states_0.pkl", "scaler.pt", "scheduler.bin", "training_args.bin")
        self.expect_files(path, ("convert", "--scheme", "hf", "--to", "safetensors"), names)

    def expect_files(self, path, words, names):
        done = self.convert(words[0], path, *words[1:])
        self.expect("neither read nor copied" not in done.stderr, "a note without files", done)
        for name in names:
            if name.endswith("/"):
                os.mkdir(os.path.join(path, name))
            else:
                with open(os.path.join(path, name), "wb") as file:
                    file.write(b"x")
        done = self.convert(words[0], path, *words[1:])
        said = done.stderr.replace("\n", " ")
        missing = [name for name in names if f'"{name}"' not in said]
        self.expect("neither read nor copied" in said and not missing, f"not named: {missing}", done)


def main():
    arguments = interop.start(__doc__)
    dcp = interop.import_dcp()
    with tempfile.TemporaryDirectory(prefix="hfshard-losses-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        losses = Losses(tool)
        losses.beyond_the_arrays()
        losses.kept_wider()
        losses.integers()
        losses.ranks(dcp)
        losses.files_beside(dcp)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
