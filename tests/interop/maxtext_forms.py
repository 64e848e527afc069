#!/usr/bin/env python3
"""Exports and reshards models in every form in which MaxText's trainers save them.

    maxtext_forms.py --hfshard PROGRAM [FIXTURE...]

hfshard writes the tree of a directory of tests/oracle, stacked and separate. MaxText's own modules load it, and MaxText's own code
saves it in five forms. They are pretraining's (with optimizer and random states), the parameters alone, SFT's (`value` below each
weight, random states next to it), RL's (all of that below `base`), and one with layers in a list. For each form:
- MaxText's exporter (detect_and_extract_checkpoint) reads the same arrays.
- `convert --to safetensors --config DIR` makes the same tensors, bit for bit. They are the fixture's (within one ulp if a note says so).
- hfshard names each array that isn't a weight, or counts it as left out.
- `reshard --config DIR` doesn't change values, and splits weights and the optimizer's arrays like the plain tree. It prints how MaxText
  loads the result, if it does.
HFSHARD_MAXTEXT_PYTHON and HFSHARD_MAXTEXT_SRC name MaxText (scripts/test --with-maxtext).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import interop
import maxtext_load
import oracle_dirs
import way_back

PEER = os.path.join(interop.HERE, "peers", "maxtext_forms.py")
NEXT = os.path.join(interop.HERE, "peers", "maxtext_next.py")
NEAR = 2e-3
FIXTURES = ("qwen3", "mixtral", "gemma3", "qwen3-next", "deepseek3", "deepseek4")
FORMS = ("list", "parameters", "pretraining", "rl", "sft")
NNX = ("list", "rl", "sft")
MESH = "fsdp=2,tensor=2"
MESHES = {"deepseek4": "fsdp=2"}  # it has one key head
SIZES = interop.SHRUNKEN


class Model:
    """One fixture in one layout, and MaxText's results for it."""

    def __init__(self, tool, oracle, layers):
        self.tool, self.oracle = tool, oracle
        self.what = f"{oracle.name} {layers}"
        self.folder = tool.path(f"{oracle.name}-{layers}")
        options = {name: value for name, value in oracle.options.items() if name not in maxtext_load.TOWERS}
        self.notes = []
        self.next = {}  # by form, MaxText's arguments for the resharded tree
        self.mesh = ["--mesh", MESHES.get(oracle.name, MESH)]
        self.config = ["--config", oracle.path, *oracle_dirs.words_of(options)]
        self.of_tree = self.config[:2]  # reshard keeps the tree, so it has no options of the family
        tool.run("convert", oracle.path, self.at("tree"), "--quiet", "--layers", layers, "--dtype", "f32", *oracle_dirs.words_of(options))
        settings = {**oracle.facts["maxtext_settings"], "use_multimodal": False, "use_audio": False}
        self.task = {"model_name": oracle.facts["maxtext_model_name"], "settings": settings, "path": self.at("tree", "0", "items"),
                     "scan": layers == "stacked", "out": self.at("forms")}

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def check(self, answer):
        if "error" in answer:
            self.tool.expect(False, f"{self.what}: MaxText says {answer['error']}")
            return
        self.check_forms(answer["forms"])
        made = {}
        for form in FORMS:
            made[form] = self.check_export(form)
            self.check_reshard(form)
        for form in FORMS:
            if made[form] is not None:
                self.tool.expect(made[form] == made["pretraining"], f"{self.what} {form}: other tensors than from pretraining")
        self.check_source(made["pretraining"])

    def is_whole(self, form):
        """Returns whether a form is complete. The parameters alone lack the variables that MaxText keeps next to
        them."""
        return form != "parameters" or self.oracle.name != "deepseek4"

    def check_forms(self, read):
        self.tool.expect(sorted(read) == list(FORMS), f"{self.what}: MaxText reads {sorted(read)}")
        for form in FORMS:
            other = {name for name in read[form] if read["sft"].get(name) != read[form][name]}
            self.tool.expect(read[form] and not other, f"{self.what} {form}: MaxText reads other arrays: {sorted(other)[:3]}")

    def check_export(self, form):
        out = self.at(f"back-{form}")
        words = ("convert", self.at("forms", form), out, "--to", "safetensors", "--quiet", *self.config)
        if not self.is_whole(form):
            self.tool.run(*words, status=3)
            return None
        planned = self.tool.json("plan", *words[1:])
        notes = self.tool.json(*words)["notes"]
        if form in NNX:
            self.tool.expect(any("random number generators, first" in note for note in notes), f"{self.what} {form}: {notes}")
        else:
            dropped = {name for drop in planned["drops"] for name in drop["tensors"]}
            arrays = {leaf["path"] for leaf in self.tool.json("inspect", self.at("forms", form))["leaves"]}
            unseen = {name for name in arrays - dropped if not name.startswith("params.") and "MoeBlock_0" not in name}
            self.tool.expect(not unseen, f"{self.what} {form}: {sorted(unseen)[:3]} are not named")
        if form in ("rl", "sft"):
            self.tool.expect(any("left out" in note and "optimizer_state" in note for note in notes), f"{self.what} {form}: {notes}")
        self.notes = notes
        return interop.tensors_of(out)

    def check_source(self, made):
        """Checks the fixture's tensors, within one ulp if a note says that they aren't exact."""
        import numpy

        source = interop.tensors_of(self.oracle.path)
        inexact = any(note.startswith("not exact") for note in self.notes)
        same = 0
        for name in sorted(source.keys() & made.keys()):
            if source[name][:2] != made[name][:2]:
                continue
            near = source[name] == made[name]
            if not near and inexact and source[name][0] in ("BF16", "F16"):
                near = way_back.ulps(numpy.frombuffer(source[name][2], "<u2"), numpy.frombuffer(made[name][2], "<u2")) <= 1
            same += near
            self.tool.expect(near, f"{self.what}: {name} is not the fixture's")
        # Without a record, DeepSeek V4 is exported to its published names, which the fixture doesn't have.
        self.tool.expect(2 * same > len(made) or self.oracle.name == "deepseek4", f"{self.what}: only {same} of {len(made)} tensors were compared")

    def leaves(self, place):
        return {leaf["path"]: leaf for leaf in self.tool.json("inspect", place)["leaves"]}

    def check_reshard(self, form):
        plain, out = self.at("plain"), self.at(f"mesh-{form}")
        if not os.path.isdir(plain):
            self.tool.run("reshard", self.at("tree"), plain, *self.mesh, "--quiet", *SIZES)
        words = ("reshard", self.at("forms", form), out, *self.mesh, "--quiet", *SIZES, *self.of_tree,
                 *(["--items", "model_params"] if form in NNX else []))
        if not self.is_whole(form):
            self.tool.run(*words, status=3)
            return
        told = self.tool.json(*words)["next"]
        unknown = self.tool.json(*words[:2], f"{out}-unknown", *[word for word in words[3:] if word not in self.of_tree])["next"]
        load = "load_parameters_path="
        self.tool.expect(unknown[0].startswith(load) == told[0].startswith(load), f"{self.what} {form}: without --config next is {unknown}")
        if told[0].startswith("load_parameters_path="):
            self.next[form] = told
        item = ["3", "model_params" if form in NNX else "items"]
        said = self.tool.json("diff", self.at("forms", form, *([] if form in NNX else ["checkpoints"]), *item), os.path.join(out, *item))
        self.tool.expect(said["equal"], f"{self.what} {form}: the resharded tree differs: {str(said)[:300]}")
        wanted = {short(name): leaf for name, leaf in self.leaves(plain).items()}
        compared = 0
        for name, leaf in self.leaves(out).items():
            other = wanted.get(short(name))
            if other is None or (other["dtype"], other["shape"]) != (leaf["dtype"], leaf["shape"]):
                continue
            compared += 1
            self.tool.expect(leaf["chunk"] == other["chunk"], f"{self.what} {form}: {name} is cut as {leaf['chunk']}, not {other['chunk']}")
        self.tool.expect(2 * compared > len(wanted), f"{self.what} {form}: only {compared} of {len(wanted)} leaves were compared")


def check_next(tool, model):
    """Checks that MaxText loads the resharded forms of SFT and RL with hfshard's arguments, and has transformers'
    logits."""
    tool.expect({"rl", "sft"} <= model.next.keys() and "parameters" not in model.next, f"{model.what}: next of {sorted(model.next)}")
    tasks = [{"source": model.oracle.path, "words": words, "model_type": "", "reference": {}} for words in model.next.values()]
    done = subprocess.run([sys.executable, NEXT], input=json.dumps(tasks), capture_output=True, text=True, check=False)
    tool.expect(done.returncode == 0, done.stderr[-2000:])
    for form, answer in zip(model.next, json.loads(done.stdout) if done.returncode == 0 else []):
        near = "error" not in answer and answer["difference"] <= NEAR * answer["largest"]
        tool.expect(near, f"{model.what} {form}: {' '.join(model.next[form])}: {answer}")


def short(name):
    """Returns a weight's name without what the forms put around it. For an optimizer's array, also without the
    optimizer's name."""
    parts = [part for part in name.split(".") if part not in ("params", "base", "value", "nnx_aux", "model")]
    if parts[0] == "opt_state":
        parts = parts[3:]
    out = []
    for part in parts:
        out = [*out[:-1], f"{out[-1]}_{part}"] if part.isdigit() else [*out, part]
    return ".".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("fixtures", nargs="*", default=FIXTURES, help="folders of tests/oracle that MaxText's converter made")
    arguments = parser.parse_args()
    maxtext_load.use_maxtext(any_release=False)
    folder = tempfile.mkdtemp(prefix="hfshard-forms-")
    try:
        tool = interop.Program(arguments.hfshard, folder)
        models = [Model(tool, oracle, layers) for oracle in map(oracle_dirs.OracleDir, arguments.fixtures) for layers in oracle.layouts()]
        done = subprocess.run([sys.executable, PEER], input=json.dumps([model.task for model in models]), capture_output=True, text=True,
                              check=False)
        tool.expect(done.returncode == 0, done.stderr[-2000:])
        for model, answer in zip(models, json.loads(done.stdout) if done.returncode == 0 else [], strict=True):
            model.check(answer)
            if model.oracle.name == "qwen3":
                check_next(tool, model)
            print(model.what, flush=True)
        return tool.verdict()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
