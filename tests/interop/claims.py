#!/usr/bin/env python3
"""Checks that an export never silently drops part of a tree. Every element that training can have changed counts.

The example of each family becomes MaxText's tree and, if torchtitan has the model, a DCP for torchtitan. TensorStore
and torch change one element of one array at a time: the first, the last, one in between, and one that is 0, like a
fill. Then the export differs from that of the unchanged tree, or hfshard refuses it with that array's name. Zeros
with the other sign don't change a fill.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile

import interop

# Those with the most copies and fills.
USUAL = ("qwen3", "gpt_oss", "deepseek_v4")
TARGETS = {"maxtext": ("--checksum", "none"), "torchtitan": ("--to", "dcp", "--scheme", "torchtitan")}


def elements_of(array):
    """Returns indices of elements to change, in the flat array: few, but of each kind."""
    import numpy

    flat = numpy.asarray(array).reshape(-1)
    chosen = {0, flat.size - 1, int(hashlib.sha256(str(flat.shape).encode()).hexdigest(), 16) % flat.size}
    wide = flat.astype("f4")
    for value in (0, 1):
        chosen |= set(numpy.flatnonzero(wide == value)[:1].tolist())
    return sorted(chosen)


class OrbaxTree:
    def __init__(self, out):
        import orbax_peer as peer

        self.item = peer.item_path(out)
        os.remove(os.path.join(os.path.dirname(self.item), "hfshard.json"))
        self.arrays = {name: peer.open_array(self.item, name, write=True) for name in peer.array_names(self.item) if name != "step"}

    def read(self, name):
        return self.arrays[name].read().result()

    def write(self, name, array):
        self.arrays[name].write(array).result()


class DcpTree:
    def __init__(self, out):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint import FileSystemReader

        self.out, self.dcp = out, dcp
        os.remove(os.path.join(out, "hfshard.json"))
        import torch

        metadata = FileSystemReader(out).read_metadata().state_dict_metadata
        self.state = {name: torch.empty(facts.size, dtype=facts.properties.dtype) for name, facts in metadata.items()}
        dcp.load(self.state, checkpoint_id=out, no_dist=True)
        self.arrays = list(self.state)

    def read(self, name):
        import ml_dtypes
        import torch

        tensor = self.state[name]
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return tensor.numpy()

    def write(self, name, array):
        import torch

        raw = torch.from_numpy(array.view("i2").copy()).view(torch.bfloat16) if array.dtype.itemsize == 2 else torch.from_numpy(array.copy())
        self.state[name] = raw
        self.dcp.save(self.state, checkpoint_id=self.out, no_dist=True)


def one_of_each(names):
    """Returns the last of the arrays whose names differ only in numbers."""
    return sorted({re.sub(r"\d+", "N", name): name for name in sorted(names)}.values())


def exported(tool, tree, source):
    """Returns (status, digest of the output, printed text)."""
    back = tool.path("back")
    shutil.rmtree(back, ignore_errors=True)
    done = tool.run_any("convert", tree, back, "--to", "safetensors", "--config", source, "--quiet", "--json")
    digest = ""
    if done.returncode == 0:
        for name in sorted(os.listdir(back)):
            if name.endswith(".safetensors"):
                with open(os.path.join(back, name), "rb") as file:
                    digest += hashlib.sha256(file.read()).hexdigest()
    return done.returncode, digest, done.stdout + done.stderr


def check_array(tool, tree, out, source, name, plain, what):
    """Counts the changes that were kept, and those that were refused."""
    import numpy

    array = numpy.array(tree.read(name))
    kept = refused = 0
    for element in elements_of(array):
        changed = array.copy()
        flat = changed.reshape(-1)
        was = flat[element]
        flat[element] = not was if array.dtype == bool else was + type(was)(1) if numpy.isfinite(float(was)) else type(was)(0)
        tree.write(name, changed)
        status, digest, said = exported(tool, out, source)
        at = f"{what}: {name}[{element}] {was} -> {flat[element]}"
        tool.expect(status in (0, 3), f"{at}: ends with {status}, {said[-400:]}")
        if status == 0:
            kept += 1
            tool.expect(digest != plain, f"{at}: nothing of it is in the export")
        else:
            refused += 1
            tool.expect(name in said and "--drop" in said, f"{at}: {said[-400:]}")
            if float(was) == 0:  # the same number, with another sign
                is_fill = "/fill/" in said
                flat[element] = -abs(was) if array.dtype.kind != "u" else was
                tree.write(name, changed)
                status, digest, said = exported(tool, out, source)
                # It doesn't change a fill. Copies are compared bit for bit.
                right = (status, digest) == (0, plain) if is_fill or changed.tobytes() == array.tobytes() else status == 3
                tool.expect(right, f"{at}: -0 is {status}, {said[-300:]}")
    tree.write(name, array)
    return kept, refused


def check_family(tool, family, scheme):
    source, out = tool.path("source"), tool.path("tree")
    for folder in (source, out):
        shutil.rmtree(folder, ignore_errors=True)
    tool.run("mappings", "example", family, source, "--quiet")
    done = tool.run_any("convert", source, out, *TARGETS[scheme], "--quiet")
    if done.returncode != 0:
        print(f"{family} {scheme}: {(done.stderr.splitlines() or ['?'])[0][:120]}")
        return
    tree = (OrbaxTree if scheme == "maxtext" else DcpTree)(out)
    what = f"{family} {scheme}"
    status, plain, said = exported(tool, out, source)
    tool.expect(status == 0, f"{what}: {said[-500:]}")
    counts = [check_array(tool, tree, out, source, name, plain, what) for name in one_of_each(tree.arrays)]
    tool.expect(exported(tool, out, source)[1] == plain, f"{what}: the tree is not as it was")
    print(f"{what:24} {len(counts):4} arrays, {sum(kept for kept, _ in counts):4} changes kept, {sum(refused for _, refused in counts):4} refused", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--all", action="store_true", help="every family")
    parser.add_argument("families", nargs="*")
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers()
    with tempfile.TemporaryDirectory(prefix="hfshard-claims-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        known = {one["name"]: one["schemes"] for one in json.loads(tool.run("mappings", "list", "--json").stdout)["families"]}
        for family in arguments.families or (known if arguments.all else USUAL):
            for scheme in known[family]:
                check_family(tool, family, scheme)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
