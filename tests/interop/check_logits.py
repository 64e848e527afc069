#!/usr/bin/env python3
"""Checks that scripts/check_logits accepts hfshard's output for MaxText and torchtitan, and refuses it with two tensors
swapped.

    check_logits.py --hfshard PROGRAM [maxtext | torchtitan]

The arguments after -- are those that `convert` prints under `next`. HFSHARD_MAXTEXT_PYTHON also has transformers and
torch. HFSHARD_PEER_PYTHON has torchtitan.
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

SCRIPT = os.path.join(interop.HERE, os.pardir, os.pardir, "scripts", "check_logits")
MAPPING = os.path.join(interop.HERE, os.pardir, os.pardir, "mappings", "qwen3.json")
# The right name of each MLP tensor in a loader. The wrong mapping gives it to the other tensor.
SWAPPED = {"maxtext": ["mlp.wi_1.kernel [D F]", "mlp.wi_0.kernel [D F]"],
           "torchtitan": ["feed_forward.w3.weight [F D]", "feed_forward.w1.weight [F D]"]}
# Arguments for torchtitan's debug model, which `next` doesn't name. Source: torchtitan/models/qwen3/__init__.py
# _debugmodel.
DEBUG = {"hidden_size": 256, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 3072, "vocab_size": 2048, "tie_word_embeddings": True, "max_position_embeddings": 4096}
NAMED = {"maxtext": [], "torchtitan": ["--module=qwen3", "--config=qwen3_debugmodel"]}


def wrong_mapping(tool, scheme):
    """Returns the family with gate and up swapped. Every shape is right, and every element is used once."""
    family = oracle_dirs.read_json(MAPPING)
    layer = family["schemes"][scheme]["layer"]
    layer["use"] = [{"part": "mlp", "only": ["down"]} if part == "mlp" else part for part in layer["use"]]
    layer["rules"] = [["gate", SWAPPED[scheme][0]], ["up", SWAPPED[scheme][1]]]
    path = tool.path("wrong.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(family, file)
    return path


def source(tool, loader):
    config = oracle_dirs.read_json(interop.ORACLE, "qwen3", "config.json")
    if loader == "torchtitan":
        config.update(DEBUG)
    maxtext_load.write_config(tool.path(), config)
    tool.run("mappings", "example", "qwen3", tool.path("source"), "--config", tool.path("config.json"))
    return tool.path("source")


def check(tool, made, words, python, loader_python):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
                   "PYTHONPATH": os.environ.get("HFSHARD_MAXTEXT_SRC", "")}
    return subprocess.run([python, SCRIPT, made, "--loader-python", loader_python, "--", *words], capture_output=True, text=True,
                          check=False, env=environment)


def run(tool, loader, python, loader_python):
    made = source(tool, loader)
    target = ["--to", "dcp", "--scheme", "torchtitan"] if loader == "torchtitan" else ["--maxtext", interop.maxtext_release()]
    wrong = ["--mapping", wrong_mapping(tool, loader)]
    for what, words, status in (("right", [], 0), ("wrong", wrong, 5)):
        report = tool.json("convert", made, tool.path(what), "--mesh", "fsdp=1", "--dtype", "f32", *target, *words)
        told = report["next"] + NAMED[loader]
        done = check(tool, made, told, python, loader_python)
        print(f"{loader} {what}: {done.stdout.strip()}", flush=True)
        tool.expect(done.returncode == status, f"{loader} {what}: exit {done.returncode}: {done.stdout}{done.stderr[-2000:]}")
    absent = [word.replace(tool.path("wrong"), tool.path("absent")) for word in told]
    done = check(tool, made, absent, python, loader_python)
    tool.expect(done.returncode == 3 and "loader can't load" in done.stderr, f"{loader}: nothing there: {done.returncode} {done.stderr[-500:]}")
    done = check(tool, made, ["model_name=qwen3-8b"], python, loader_python)
    tool.expect(done.returncode == 2, f"{loader}: other words: {done.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("loader", choices=sorted(SWAPPED), nargs="?", default="maxtext")
    arguments = parser.parse_args()
    python, peer = os.environ.get("HFSHARD_MAXTEXT_PYTHON"), os.environ.get("HFSHARD_PEER_PYTHON")
    loader_python = python if arguments.loader == "maxtext" else peer
    if not python or not loader_python:
        print("PEER MISSING maxtext and torchtitan (scripts/test --with-maxtext)")
        sys.exit(interop.SKIP_STATUS)
    folder = tempfile.mkdtemp(prefix="hfshard-logits-")
    try:
        tool = interop.Program(arguments.hfshard, folder)
        run(tool, arguments.loader, python, loader_python)
        return tool.verdict()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
