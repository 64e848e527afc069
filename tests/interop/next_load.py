#!/usr/bin/env python3
"""Gives the arguments that `convert` prints under `next`, unchanged, to MaxText, which loads the checkpoint and runs a
forward pass.

    next_load.py --hfshard PROGRAM [--part N/M] [MODEL...]

The models have odd sizes in every family (next_load.json): another vocabulary, depth or width, other heads and
experts. `mappings example` makes each one, and `convert --mesh fsdp=1 --dtype f32` its checkpoint. MaxText's own
code loads it with the printed arguments and the user's own (run name, dtypes, batch, kernels). Unless hfshard warns
that logits will differ, they differ from transformers' by at most 2e-3 of the largest. HFSHARD_MAXTEXT_PYTHON and
HFSHARD_MAXTEXT_SRC name MaxText (scripts/test --with-maxtext).
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

import interop
import maxtext_load
import oracle_dirs

PEER = os.path.join(interop.HERE, "peers", "maxtext_next.py")
NEAR = 2e-3
# By BASE/NAME. BASE is a directory of tests/oracle or an example of maxtext_settings.json.
# - `config`: changes in its text model. `layers`: if separate.
# - `towers`: transformers' model has them (true, or the directory that has their config), and MaxText gets only the
# text.
# - `reference`: as in maxtext_settings.json, or null if transformers doesn't run. `model_type`: transformers' name for
# it.
ODD = os.path.join(interop.HERE, "next_load.json")


def text_part(config):
    """Returns the config of the text model."""
    while "text_config" in config or "thinker_config" in config:
        config = config.get("text_config") or config["thinker_config"]
    return config


def base_of(name, family):
    """Returns the config that a model starts from, its family, and the facts about it in maxtext_settings.json."""
    known = oracle_dirs.read_json(maxtext_load.SETTINGS).get(name, {})
    if "family" in known and "of" not in known:
        return known["config"], known["family"], known
    config = oracle_dirs.read_json(interop.ORACLE, known.get("of", name), "config.json")
    return maxtext_load.changed(config, known.get("config", {})), family, known


class Odd:
    """A model with odd sizes."""

    def __init__(self, name, facts):
        self.name = name
        config, self.family, known = base_of(name.split("/")[0], facts["family"])
        text_part(config).update(facts.get("config", {}))
        self.config = config
        self.example = self.choose_towers(facts.get("towers", False))
        self.layers = facts.get("layers", "stacked")
        self.reference = facts.get("reference", known.get("reference", {}))
        self.model_type = known.get("model_type", "")

    def choose_towers(self, towers):
        """Returns the options of the example."""
        if isinstance(towers, str):
            self.config["vision_config"] = oracle_dirs.read_json(interop.ORACLE, towers, "config.json")["vision_config"]
        out = []
        whole = self.config.get("thinker_config", self.config)
        for tower in maxtext_load.TOWERS:
            if towers and f"{tower}_config" in whole:
                out += ["--option", f"{tower}=true"]
            else:
                whole.pop(f"{tower}_config", None)
        return out

    def task(self, tool):
        """Makes the model and its checkpoint, and takes the arguments from the printed text."""
        source, out = (tool.path(self.name.replace("/", "-") + end) for end in ("", "-out"))
        maxtext_load.write_config(tool.path(), self.config)
        tool.run("mappings", "example", self.family, source, "--config", tool.path("config.json"), "--quiet", *self.example)
        done = tool.run("convert", source, out, "--mesh", "fsdp=1", "--dtype", "f32", "--layers", self.layers,
                        "--maxtext", interop.maxtext_release())
        lines = [line for line in done.stdout.splitlines() if line.startswith("next ")]
        tool.expect(len(lines) == 1, f"{self.name}: next is {lines}")
        return {"source": source, "words": shlex.split(lines[0])[1:], "model_type": self.model_type, "reference": self.reference,
                "warned": "logits will differ" in done.stderr + done.stdout}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--part", default="1/1", help="which part of the models: N/M")
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    maxtext_load.use_maxtext()
    number, count = map(int, arguments.part.split("/"))
    known = oracle_dirs.read_json(ODD)
    names = arguments.models or sorted(known)[number - 1::count]
    folder = tempfile.mkdtemp(prefix="hfshard-next-")
    try:
        tool = interop.Program(arguments.hfshard, folder)
        tasks = [Odd(name, known[name]).task(tool) for name in names]
        done = subprocess.run([sys.executable, PEER], input=json.dumps(tasks), capture_output=True, text=True, check=False)
        tool.expect(done.returncode == 0, done.stderr[-2000:])
        for name, task, answer in zip(names, tasks, json.loads(done.stdout) if done.returncode == 0 else []):
            said = f"{name}: {' '.join(task['words'][1:])}: {answer}{', as hfshard warns' if task['warned'] else ''}"
            print(said, flush=True)
            tool.expect("error" not in answer and answer["finite"], said)
            if "difference" in answer and not task["warned"]:
                tool.expect(answer["difference"] <= NEAR * answer["largest"], said)
        return tool.verdict()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
