#!/usr/bin/env python3
"""Leaves out arrays whose dtype hfshard doesn't know, from what real torch and Orbax wrote.

Each kind of checkpoint holds a model, or any state, and arrays of a dtype that hfshard can't read. Without --exclude, every
command refuses the checkpoint and names the array and the option. With it, the array is named, and the output has the bytes of
a checkpoint that never had it.
"""

import os
import sys
import tempfile

import interop


class Kind:
    """One kind of checkpoint: `save(path, arrays)` writes it. The arrays of `strange` have unknown dtypes."""

    def __init__(self, tool, name, save, good, strange, words):
        self.tool, self.name, self.words = tool, name, words
        save(tool.path(name), {**good, **strange})
        save(tool.path(f"{name}-good"), good)
        self.strange = sorted(strange)

    def check_inspect(self):
        """inspect names what it can't read, and shows all else."""
        expect = self.tool.expect
        found, good = (self.tool.json("inspect", self.tool.path(name)) for name in (self.name, f"{self.name}-good"))
        key = "name" if "tensors" in good else "path"
        expect([item[key] for item in found.get("unreadable", [])] == self.strange, f"{self.name}: inspect lists {found.get('unreadable')}")
        expect(all(item["message"] for item in found.get("unreadable", [])), f"{self.name}: no reason")
        expect(found["elements"] == good["elements"], f"{self.name}: {found['elements']} elements")
        if "leaves" in good:
            self.tool.json("inspect", self.tool.path(self.name), "--load-mesh", "fsdp=1")

    def run(self, source, out, *more):
        return self.tool.run_any(self.words[0], self.tool.path(source), self.tool.path(out), *self.words[1:], *more)

    def check(self):
        expect = self.tool.expect
        for command in (["inspect", "--data"], ["plan", "--scheme", "hf"]):
            done = self.tool.run_any(command[0], self.tool.path(self.name), *command[1:])
            expect(done.returncode == 3 and "[unsupported]" in done.stderr, f"{self.name}: {command} {done.returncode} {done.stderr}")
        self.check_inspect()
        done = self.run(self.name, f"{self.name}-refused")
        expect(done.returncode == 3 and any(f'"{name}"' in done.stderr for name in self.strange), f"{self.name}: {done.stderr}")
        expect("--exclude" in done.stderr, f"{self.name}: no way out in {done.stderr}")
        done = self.run(self.name, f"{self.name}-other", "--exclude", "no.such.name")
        expect(done.returncode in (2, 3), f"{self.name}: another glob let it through")
        globs = [word for name in self.strange for word in ("--exclude", name)]
        done = self.run(self.name, f"{self.name}-out", *globs)
        if not expect_exit(self.tool, done, self.name):
            return
        for name in self.strange:
            expect(f'not converted: "{name}"' in done.stderr, f"{self.name}: {name} isn't named in {done.stderr}")
        done = self.run(f"{self.name}-good", f"{self.name}-good-out")
        expect_exit(self.tool, done, f"{self.name}-good")
        done = self.tool.run_any("diff", self.tool.path(f"{self.name}-out"), self.tool.path(f"{self.name}-good-out"))
        expect(done.returncode == 0, f"{self.name}: {done.stdout}{done.stderr}")
        done = self.tool.run_any("diff", self.tool.path(self.name), self.tool.path(f"{self.name}-good"), *globs)
        expect(done.returncode == 0 and done.stderr.count("not compared") == 1, f"{self.name}: {done.stdout}{done.stderr}")
        done = self.tool.run_any("verify", self.tool.path(f"{self.name}-out"), self.tool.path(self.name))
        expect_exit(self.tool, done, f"verify {self.name}")


def expect_exit(tool, done, what):
    tool.expect(done.returncode == 0, f"{what}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def torch_kinds(tool, dcp):
    import torch

    def save_dcp(path, state):
        dcp.save(state, checkpoint_id=path, no_dist=True)

    def save_ranks(path, state):
        # Each rank writes its own metadata.
        dcp.save(state, storage_writer=dcp.FileSystemWriter(path), no_dist=True, use_collectives=False)

    def save_file(path, state):
        os.makedirs(path)
        torch.save(state, os.path.join(path, "pytorch_model.bin"))

    good = {"a.weight": torch.arange(12.0).reshape(3, 4), "b.weight": torch.arange(6, dtype=torch.int32)}
    strange = {"a.freqs": torch.ones(4, 2, dtype=torch.complex128), "z.half": torch.ones(3, dtype=torch.complex32)}
    quantized = {"q.weight": torch.quantize_per_tensor(torch.ones(4, 4), 0.1, 0, torch.qint8)}
    nested = {"model": good, "extra": {"freqs": strange["a.freqs"], "step": 3}}
    copy = ("convert", "--scheme", "hf", "--to", "safetensors")
    yield Kind(tool, "dcp", save_dcp, good, strange, ("reshard",))
    yield Kind(tool, "dcp-files", save_dcp, good, strange, copy)
    yield Kind(tool, "dcp-ranks", save_ranks, good, strange, ("reshard",))
    yield Kind(tool, "torch", save_file, good, {**strange, **quantized}, copy)

    def save_nested(path, state):
        kept = {key: value for key, value in nested["extra"].items() if f"extra.{key}" in state or key == "step"}
        save_dcp(path, {"model": good, "extra": kept})

    # The archive of an item shows that it is a view, which the metadata don't.
    views = {"a.conj": torch.ones(4, 2, dtype=torch.complex64).conj(), "z.neg": torch._neg_view(torch.ones(2, 3))}
    yield Kind(tool, "dcp-views", save_dcp, good, views, ("reshard",))
    yield Kind(tool, "dcp-nested", save_nested, {}, {"extra.freqs": strange["a.freqs"]}, ("reshard",))


def check_root(tool, dcp):
    """A glob is for the names below --root."""
    import torch

    state = {"model": {"a": torch.ones(3, 4), "x": torch.ones(2, dtype=torch.complex128)}}
    dcp.save(state, checkpoint_id=tool.path("root"), no_dist=True)
    words = ("--root", "model", "--exclude", "x")
    done = tool.run_any("convert", tool.path("root"), tool.path("root-out"), "--scheme", "hf", "--to", "safetensors", *words)
    if expect_exit(tool, done, "root"):
        tool.expect('not converted: "x"' in done.stderr, f"root: {done.stderr}")
        tool.expect(list(interop.tensors_of(tool.path("root-out"))) == ["a"], "root: other tensors")


def orbax_kinds(tool):
    import jax.numpy as jnp
    import numpy as np
    import orbax.checkpoint as ocp

    def saver(use_ocdbt):
        def save(path, state):
            tree = {}
            for name, value in state.items():
                keys = name.split(".")
                tree.setdefault(keys[0], {})[keys[1]] = value
            handler = ocp.PyTreeCheckpointHandler(use_ocdbt=use_ocdbt, use_zarr3=use_ocdbt)
            with ocp.Checkpointer(handler) as checkpointer:
                checkpointer.save(path, args=ocp.args.PyTreeSave(tree))
        return save

    good = {"a.kernel": jnp.arange(12.0, dtype=jnp.float32).reshape(3, 4), "b.kernel": jnp.arange(6, dtype=jnp.int32)}
    strange = {"a.codes": jnp.ones((4, 4), jnp.int4), "z.freqs": np.ones((3,), np.complex128)}
    yield Kind(tool, "orbax", saver(True), good, strange, ("reshard",))
    yield Kind(tool, "orbax-files", saver(True), good, strange, ("convert", "--scheme", "hf", "--to", "safetensors"))
    yield Kind(tool, "orbax-directories", saver(False), good, strange, ("reshard",))


def main():
    arguments = interop.start(__doc__)
    dcp = interop.import_dcp()
    with tempfile.TemporaryDirectory(prefix="hfshard-unreadable-") as work:
        tool = interop.Program(arguments.hfshard, work)
        for kind in (*torch_kinds(tool, dcp), *orbax_kinds(tool)):
            kind.check()
        check_root(tool, dcp)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
