#!/usr/bin/env python3
"""Compares exports with MaxText's own: to_huggingface and `convert --to safetensors` write the same files for the same
trees.

    maxtext_export.py --hfshard PROGRAM [FIXTURE...]

The test covers every directory of tests/oracle that MaxText's converter made, stacked and separate, with towers and
with only the text. hfshard writes the tree, and both programs export it, MaxText in the dtype that config.json
names. The test compares names, shapes, dtypes and bytes of all tensors. An undeclared difference fails, and so does
a declared one that doesn't exist, or an undeclared refusal by MaxText. Declarations are `export` and
`export_refused` in tests/oracle/differences.json, with DIFFERENCES.md. There, `parts` and `layers` name the trees,
and `export_names` has expressions that turn hfshard's names into MaxText's. If tensors differ, hfshard's are those
of the original file, or within one ulp of them if its values were computed. HFSHARD_MAXTEXT_PYTHON and
HFSHARD_MAXTEXT_SRC name MaxText (scripts/test --with-maxtext).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import interop
import maxtext_load
import oracle_dirs
import way_back

PEER = os.path.join(interop.HERE, "peers", "maxtext_export.py")
FACTS = ("dtype", "shape", "bytes")


class Export:
    """One tree and the exports of both programs."""

    def __init__(self, tool, oracle, layers, parts):
        self.oracle, self.layers, self.parts = oracle, layers, parts
        self.what = f"{oracle.name} {layers}{' ' + parts if parts == 'text' else ''}"
        tree, ours, self.theirs = (tool.path("-".join((oracle.name, layers, parts, part))) for part in ("tree", "ours", "theirs"))
        options = {name: value for name, value in oracle.options.items() if parts == "all" or name not in maxtext_load.TOWERS}
        tool.run("convert", oracle.path, tree, "--quiet", "--layers", layers, *oracle_dirs.words_of(options))
        tool.run("convert", tree, ours, "--quiet", "--to", "safetensors")
        self.source = {self.renamed(name): tensor for name, tensor in interop.tensors_of(oracle.path).items()}
        self.ours = {self.renamed(name): tensor for name, tensor in interop.tensors_of(ours).items()}
        settings = {**oracle.facts["maxtext_settings"], **({"use_multimodal": False, "use_audio": False} if parts == "text" else {})}
        self.task = {"config": oracle.path, "model_name": oracle.facts["maxtext_model_name"], "settings": settings,
                     "path": os.path.join(tree, "0", "items"), "scan": layers == "stacked", "out": self.theirs,
                     "dtype": oracle_dirs.read_json(oracle.path, "config.json")["torch_dtype"]}

    def declared(self, key):
        """Returns the declarations for this tree in differences.json: glob -> fact, or the beginning of a refusal."""
        return [entry[key] for entry in self.oracle.differences() if key in entry and self.layers in entry.get("layers", self.layers)
                and self.parts in entry.get("parts", self.parts)]

    def renamed(self, name):
        for names in self.declared("export_names"):
            for pattern, replacement in names.items():
                name = re.sub(pattern, replacement, name)
        return name

    def differing(self):
        """Returns name -> the first fact in which MaxText's tensor differs from hfshard's."""
        theirs = interop.tensors_of(self.theirs)
        found = {name: "missing" if name in self.ours else "extra" for name in self.ours.keys() ^ theirs.keys()}
        for name in self.ours.keys() & theirs.keys():
            facts = [fact for fact, one, other in zip(FACTS, self.ours[name], theirs[name], strict=True) if one != other]
            if facts:
                found[name] = facts[0]
        return found

    def check(self, tool, refusal):
        wanted = self.declared("export_refused")
        if refusal or wanted:
            tool.expect(refusal and wanted and refusal.startswith(wanted[0]), f"{self.what}: {str(refusal)[:300]}; declared is {wanted}")
            return f"{self.what}: MaxText stops: {str(refusal)[:80]}"
        found = self.differing()
        globs = {glob: fact for entry in self.declared("export") for glob, fact in entry.items()}
        matched, idle = oracle_dirs.matching(sorted(found), globs)
        tool.expect(not idle, f"{self.what}: {idle} do not differ")
        rest = {name: found[name] for name in sorted(found.keys() - matched)}
        tool.expect(not rest, f"{self.what}: {len(rest)} tensors differ too: {dict(list(rest.items())[:8])}")
        for glob, fact in globs.items():
            wrong = {name: found[name] for name in oracle_dirs.matching(sorted(found), [glob])[0] if found[name] != fact}
            tool.expect(not wrong, f"{self.what}: {wrong} are not {fact}")
        for name in sorted(found.keys() & self.ours.keys() & self.source.keys()):
            tool.expect(is_near(self.ours[name], self.source[name]), f"{self.what}: {name} of ours is not the source's")
        same = len(self.ours.keys() - found.keys())
        tool.expect(same > 0, f"{self.what}: no tensor is the same")
        return f"{self.what}: {same} of {len(self.ours)} tensors are the same, {len(found)} differ as declared"


def is_near(tensor, source):
    """Returns whether they are the same, or have the same dtype and shape and are within one ulp."""
    import numpy

    if tensor == source or tensor[:2] != source[:2] or tensor[0] not in ("BF16", "F16"):
        return tensor == source
    return way_back.ulps(numpy.frombuffer(tensor[2], "<u2"), numpy.frombuffer(source[2], "<u2")) <= 1


def parts_of(oracle):
    """Returns the whole tree, and for a model with towers also only the text."""
    return ("all", "text") if any(name in oracle.options for name in maxtext_load.TOWERS) else ("all",)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("fixtures", nargs="*", help="folders of tests/oracle (default: all that MaxText's converter made)")
    arguments = parser.parse_args()
    maxtext_load.use_maxtext(any_release=False)
    oracles = [oracle_dirs.OracleDir(name) for name in arguments.fixtures or oracle_dirs.oracle_names()]
    with tempfile.TemporaryDirectory(prefix="hfshard-maxtext-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        exports = [Export(tool, oracle, layers, parts) for oracle in oracles if "maxtext_model_name" in oracle.facts
                   for layers in oracle.layouts() for parts in parts_of(oracle)]
        done = subprocess.run([sys.executable, PEER], input=json.dumps([one.task for one in exports]), capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            tool.expect(False, done.stderr[-2000:])
            return tool.verdict()
        for one, refusal in zip(exports, json.loads(done.stdout), strict=True):
            print(one.check(tool, refusal), flush=True)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
