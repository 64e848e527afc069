#!/usr/bin/env python3
"""Checks that torch can still load the whole state of a DCP with only objects, or with lists of which a part is left
out.

torch's own loader with an empty state dict decides. The Python with torch is HFSHARD_PEER_PYTHON.
"""

import argparse
import sys
import tempfile

import interop


def same(a, b):
    import torch

    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def check_alone(tool, save):
    states = {"flat": {"sched": {"last_epoch": 3, "rates": [0.5, 0.25]}, "name": "x"},
              "nested": {"optim": {"param_groups": [{"lr": 1e-3, "betas": (0.9, 0.95)}, {"lr": 2.0}]}, "none": None},
              "one": {"step": 7}}
    for name, state in states.items():
        source, out = save(name, state), tool.path(f"{name}-out")
        tool.run("reshard", source, out, "-q")
        tool.expect(same(interop.load_dcp(source), interop.load_dcp(out)), f"{name}: torch loads another state: {interop.load_dcp(out)}")
        tool.run("verify", out, source)
        tool.run("verify", out)
        tool.run("diff", source, out)
        tool.run("inspect", out)
        tool.run("convert", source, tool.path(f"{name}-convert"), "--to", "dcp", "--scheme", "hf", "-q")
        tool.expect(same(interop.load_dcp(source), interop.load_dcp(tool.path(f"{name}-convert"))), f"{name}: convert changes the state")
        for to in ("orbax", "safetensors"):
            done = tool.run_any("reshard", source, tool.path("never"), "--to", to)
            tool.expect(done.returncode == 3 and "can't hold" in done.stderr, f"{name} to {to}: {done.returncode} {done.stderr}")
    tool.run("diff", tool.path("flat"), tool.path("one"), status=5)
    # Only the objects, from a checkpoint with tensors.
    import torch

    source, out = save("both", {"w": torch.ones(3), "lr": 0.5}), tool.path("both-out")
    tool.run("reshard", source, out, "--exclude", "w", "-q")
    tool.expect(same(interop.load_dcp(out), {"lr": 0.5}), f"the objects alone: {interop.load_dcp(out)}")
    tool.run("diff", source, out, "--include", "lr")


def check_lists(tool, save):
    import torch

    t = [torch.full((2,), float(i)) for i in range(4)]
    state = {"l": [t[0], t[1], "text", {"a": t[2], "b": 5}], "m": t[3], "groups": [{"lr": 0.5, "w": t[0]}, {"lr": 2.0}]}
    source = save("lists", state)
    kept = {"l.3*": state | {"l": state["l"][:3]}, "l.*": {key: state[key] for key in ("m", "groups")},
            "l.3.a": state | {"l": [*state["l"][:3], {"b": 5}]}, "groups.0.lr": state | {"groups": [{"w": t[0]}, {"lr": 2.0}]},
            "groups.1*": state | {"groups": state["groups"][:1]}, "m": {key: state[key] for key in ("l", "groups")}}
    for number, (glob, wanted) in enumerate(kept.items()):
        out = tool.path(f"kept-{number}")
        tool.run("reshard", source, out, "--exclude", glob, "-q")
        tool.expect(same(interop.load_dcp(out), wanted), f"--exclude {glob}: torch loads {interop.load_dcp(out)}")
    # The root of a state is a dict.
    out = tool.path("rooted")
    done = tool.run("reshard", source, out, "--root", "l")
    tool.expect(same(interop.load_dcp(out), {str(key): value for key, value in enumerate(state["l"])}), f"{interop.load_dcp(out)}")
    tool.expect('"l" is a list' in done.stderr, f"no note on the list at the root: {done.stderr}")
    for number, glob in enumerate(("l.0", "l.1", "l.2", "groups.0*", "l.[02]")):
        done = tool.run_any("reshard", source, tool.path(f"gap-{number}"), "--exclude", glob)
        tool.expect(done.returncode == 2 and "gap" in done.stderr, f"--exclude {glob}: {done.returncode} {done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    arguments = parser.parse_args()
    dcp = interop.import_dcp()
    with tempfile.TemporaryDirectory(prefix="hfshard-objects-") as work:
        tool = interop.Program(arguments.hfshard, work)

        def save(name, state):
            dcp.save(state, checkpoint_id=tool.path(name), no_dist=True)
            return tool.path(name)

        check_alone(tool, save)
        check_lists(tool, save)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
