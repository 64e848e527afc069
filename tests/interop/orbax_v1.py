#!/usr/bin/env python3
"""Checks that Orbax's v1 API loads a step from hfshard like the step that Orbax itself writes for the same tree.

The test covers every form of `load`, `load_checkpointables`, `metadata` and `training.Checkpointer`. They are for
the step and for the item, with and without the item's name, with and without an abstract tree, and in part. If Orbax
loads its own step, hfshard's must give the same values, kinds and shardings. If it refuses its own, it must refuse
hfshard's with the same error.
"""

import os
import sys
import tempfile

import interop
import oracle_dirs

MESH = {"fsdp": 4, "tensor": 2}


def sharded(tree):
    """Returns the abstract tree of a program: each array split over the mesh if a dimension divides."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh(tuple(MESH.values()), tuple(MESH))

    def leaf(value):
        if not hasattr(value, "shape"):
            return value
        axes = [tuple(MESH) if size % 8 == 0 else None for size in value.shape]
        first = next((dim for dim, axis in enumerate(axes) if axis), None)
        spec = PartitionSpec(*(axis if dim == first else None for dim, axis in enumerate(axes)))
        return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=NamedSharding(mesh, spec))

    return jax.tree.map(leaf, tree)


def one_leaf(tree):
    """Returns the first branch of the tree with an array, with everything above it."""
    for key, value in tree.items():
        if isinstance(value, dict):
            below = one_leaf(value)
            if below:
                return {key: below}
        elif hasattr(value, "shape"):
            return {key: value}
    return {}


def instead(tree, part):
    """Returns the whole tree, with `...` for everything outside the part."""
    import jax

    return {key: instead(value, part[key]) if isinstance(value, dict) and key in part else part[key] if key in part
            else jax.tree.map(lambda _: ..., value) for key, value in tree.items()}


def forms(root, name, abstract):
    """Returns description -> function that loads."""
    from orbax.checkpoint import v1

    step, part = os.path.join(root, "0"), one_leaf(abstract)
    other = "state" if name != "state" else "items"

    def partial(path, **words):
        context = v1.Context()
        context.pytree.loading.partial_load = True
        with context:
            return v1.load(path, part, **words)

    def in_manager(load):
        with v1.training.Checkpointer(root) as made:
            return load(made)

    out = {}
    for place, path in (("step", step), ("item", os.path.join(step, name)), ("root", root)):
        for said, words in (("", {}), (f" as {name}", {"checkpointable_name": name}), (f" as {other}", {"checkpointable_name": other}),
                            (" without a name", {"checkpointable_name": None})):
            what = place + said
            out[f"{what}, as saved"] = lambda path=path, words=words: v1.load(path, **words)
            out[f"{what}, onto a mesh"] = lambda path=path, words=words: v1.load(path, abstract, **words)
            out[f"{what}, in part"] = lambda path=path, words=words: partial(path, **words)
            out[f"{what}, one leaf for ..."] = lambda path=path, words=words: v1.load(path, instead(abstract, part), **words)
            out[f"{what}, metadata"] = lambda path=path, words=words: v1.metadata(path, **words).metadata
            out[f"{what}, as its metadata says"] = lambda path=path, words=words: v1.load(path, v1.metadata(path, **words), **words)
        out[f"{place}, all"] = lambda path=path: v1.load_checkpointables(path)
        out[f"{place}, all onto a mesh"] = lambda path=path: v1.load_checkpointables(path, {name: abstract})
        out[f"{place}, metadata of all"] = lambda path=path: v1.checkpointables_metadata(path).metadata
        out[f"{place}, is one"] = lambda path=path: v1.is_orbax_checkpoint(path)
    out["Checkpointer, all"] = lambda: in_manager(lambda made: made.load_checkpointables())
    out["Checkpointer, onto a mesh"] = lambda: in_manager(lambda made: made.load_checkpointables(0, {name: abstract}))
    out["Checkpointer, the state"] = lambda: in_manager(lambda made: made.load(0, abstract))
    out["Checkpointer, steps"] = lambda: in_manager(lambda made: [one.step for one in made.checkpoints])
    return out


def described(value):
    """Returns the result of a load for comparison: the tree's kinds and each leaf's type, dtype, shape, bytes and
    sharding."""
    import jax
    import numpy

    def leaf(one):
        if isinstance(one, jax.Array):
            return "array", str(one.dtype), one.shape, str(one.sharding.spec) if hasattr(one.sharding, "spec") else "", numpy.asarray(one).tobytes()
        if hasattr(one, "shape") and hasattr(one, "dtype"):
            data = one.tobytes() if isinstance(one, numpy.ndarray) else b""
            return type(one).__name__, str(one.dtype), tuple(one.shape), data
        return type(one).__name__, str(one)

    leaves, kinds = jax.tree.flatten(value, is_leaf=lambda one: one is None)
    return str(kinds), [leaf(one) for one in leaves]


def outcome(load):
    try:
        return "loads", described(load())
    except Exception as error:  # any error of Orbax
        return "refuses", type(error).__name__


def compare(tool, what, root, theirs, name, tree):
    abstract = sharded(tree)
    loads = 0
    ours, own = forms(root, name, abstract), forms(theirs, name, abstract)
    for form, load in own.items():
        expected, found = outcome(load), outcome(ours[form])
        loads += expected[0] == "loads"
        tool.expect(found == expected, f"{what}, {form}: {str(found)[:300]}, Orbax's own step: {str(expected)[:300]}")
    tool.expect(loads >= 20, f"{what}: only {loads} forms load Orbax's own step")
    print(f"{what}: {loads} of {len(own)} forms load", flush=True)


def own_step(path, name, tree):
    from orbax.checkpoint import v1

    with v1.training.Checkpointer(path) as made:
        made.save_checkpointables(0, {name: tree})


def main():
    arguments = interop.start(__doc__)
    import numpy
    import orbax.checkpoint as ocp
    from orbax.checkpoint import v1

    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        oracle = oracle_dirs.OracleDir("qwen3")
        for layers in oracle.layouts():
            out, theirs = tool.path(layers), tool.path(f"{layers}-theirs")
            tool.run("convert", oracle.path, out, "--layers", layers, *oracle.words())
            tree = ocp.PyTreeCheckpointer().restore(os.path.join(out, "0", "items"))
            own_step(theirs, "items", tree)
            compare(tool, f"converted, {layers}", out, theirs, "items", tree)
        weights = numpy.arange(64, dtype="f4").reshape(8, 8)
        state = {"params": {"w": weights, "b": weights[0].astype("f2")}, "opt_state": [{"mu": weights * 2}, None, {}], "step": numpy.array(3, "i4"),
                 "names": {"0": numpy.arange(16), "a.b": 0.5, "n": 7}}
        for name in ("items", "state"):
            run, mesh, once = tool.path(f"run-{name}"), tool.path(f"mesh-{name}"), tool.path(f"once-{name}")
            own_step(run, name, state)
            tool.run("reshard", run, mesh, "--mesh", "fsdp=4", "--output-step", "0")
            compare(tool, f"a step of a Checkpointer, {name}", mesh, run, name, state)
            v1.save_checkpointables(once, {name: state})
            tool.run("reshard", once, once + "-mesh", "--mesh", "fsdp=4")
            compare(tool, f"a checkpoint that is no step, {name}", once + "-mesh", run, name, state)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
