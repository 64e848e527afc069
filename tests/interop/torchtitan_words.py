#!/usr/bin/env python3
"""Gives the arguments of a conversion to torchtitan's own parser of its configuration, and builds the model that they
name.

    torchtitan_words.py --hfshard PROGRAM

The test covers every published model that a mapping lists and torchtitan has a config for. The model of the config
has the written tensors, with their names and shapes. A resharded training state is loaded with optimizer and step.
The models of mappings/loaders.json are torchtitan's.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

import dcp_variants
import interop
import next_words
import oracle_dirs

SCHEME = ["--to", "dcp", "--scheme", "torchtitan"]
SCRIPTS = os.path.join(interop.HERE, os.pardir, os.pardir, "scripts")
# A config of each kind that must be found. The sizes are those of the published models.
NAMED = {"llama3.1-8b": "llama3_8b", "llama3.1-70b": "llama3_70b", "llama3.1-405b": "llama3_405b", "qwen3-0.6b": "qwen3_0_6b", "qwen3-32b": "qwen3_32b",
         "qwen3-30b-a3b": "qwen3_30b_a3b", "gpt-oss-20b": "gpt_oss_20b", "deepseek3-671b": "deepseek_v3_671b"}
WITHOUT_CONFIG = {"qwen3-8b": "8B", "qwen3-235b-a22b": "235B-A22B"}


def plan_of(tool, family, config):
    """Returns `plan --json` of a model with these sizes, or None if torchtitan has no such model."""
    source, written = tool.path("source"), tool.path("config.json")
    shutil.rmtree(source, ignore_errors=True)
    with open(written, "w", encoding="utf-8") as file:
        json.dump(config, file)
    tool.run("mappings", "example", family, source, "--config", written, "--sparse", "--quiet")
    done = tool.run_any("plan", source, *SCHEME, "--json", "--quiet")
    return json.loads(done.stdout) if done.returncode == 0 else None


def published(tool):
    """Returns (name, plan) of each listed model for torchtitan."""
    for file in sorted(name for name in os.listdir(next_words.MAPPINGS) if name.endswith(".json")):
        mapping = oracle_dirs.read_json(next_words.MAPPINGS, file)
        if "torchtitan" not in mapping.get("schemes", {}) or file == "common.json":
            continue
        for name, facts in next_words.listed_models(mapping.get("sizes", {"models": {}})):
            config = next_words.nested(facts)
            if name.startswith("llama3"):
                config["rope_theta"] = 500000.0
            plan = plan_of(tool, file.removesuffix(".json"), config)
            if plan is not None:
                yield name, plan


def tasks_of(tool):
    tasks, leaves, seen = [], {}, set()
    for name, plan in published(tool):
        words, note = plan["load_words"], plan["load_note"]
        seen.add(name)
        tool.expect("--checkpoint.enable" in words, f"{name}: {words}")
        named = [word.removeprefix("--config=") for word in words if word.startswith("--config=")]
        if name in NAMED:
            tool.expect(named == [NAMED[name]], f"{name}: {words}, {note}")
        if name in WITHOUT_CONFIG:
            tool.expect(not named and f"the flavor {WITHOUT_CONFIG[name]}," in note, f"{name}: {words}, {note}")
        tool.expect(bool(named) != bool(note), f"{name}: {words}, {note}")
        if named:
            tasks.append({"what": name, "words": words})
            leaves[name] = {leaf["path"]: leaf["shape"] for leaf in plan["leaves"]}
    missing = sorted((NAMED.keys() | WITHOUT_CONFIG.keys()) - seen)
    tool.expect(not missing, f"{missing} are not among the listed models")
    return tasks, leaves


def state_task(tool, python):
    """Returns the arguments of a resharded training state, after a config of torchtitan's."""
    state, out = tool.path("state"), tool.path("resharded")
    made = ("import sys, torch, torch.distributed.checkpoint as dcp\n"
            "w = torch.arange(64.).reshape(8, 8)\n"
            "dcp.save({'tok_embeddings.weight': w, 'optimizer.state.tok_embeddings.weight.exp_avg': w, 'train_state': {'step': 3}},"
            " checkpoint_id=sys.argv[1], no_dist=True)\n")
    subprocess.run([python, "-c", made, state], check=True)
    done = tool.run("reshard", state, out, "--mesh", "fsdp=2", "--json", "--quiet")
    return {"what": "state", "words": ["--module=llama3", "--config=llama3_8b", *json.loads(done.stdout)["next"]]}, out


def readme_tasks():
    """Returns the arguments after torchtitan's commands in README.md."""
    with open(os.path.join(interop.HERE, os.pardir, os.pardir, "README.md"), encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    lines = [line.split("-m torchtitan.train", 1)[1] for line in text.splitlines() if "-m torchtitan.train" in line]
    return [{"what": f"README {number}", "words": shlex.split(line)} for number, line in enumerate(lines)]


def expect_listed(tool, found):
    """Expects the facts that torchtitan's models have in mappings/loaders.json."""
    listed = oracle_dirs.read_json(next_words.MAPPINGS, "loaders.json")["torchtitan"]
    tool.expect("error" not in found, f"models: {found.get('error')}")
    if listed["source"] != found.get("source"):
        print(f"PEER OTHER: {found.get('source')}, but mappings/loaders.json is of {listed['source']}")
        return
    names = sorted(listed["models"].keys() | found["models"].keys())
    differ = [f"{name}: {listed['models'].get(name)}, but {found['models'].get(name)}" for name in names
              if listed["models"].get(name) != found["models"].get(name)]
    tool.expect(not differ, f"mappings/loaders.json differs from torchtitan's models (scripts/torchtitan_models.py): {differ[:4]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", required=True)
    arguments = parser.parse_args()
    python = dcp_variants.torch_python()
    with tempfile.TemporaryDirectory() as folder:
        tool = interop.Program(arguments.hfshard, folder)
        tasks, leaves = tasks_of(tool)
        state, out = state_task(tool, python)
        shown = readme_tasks()
        tool.expect(len(shown) == 2, "README.md has other commands of torchtitan")
        models = {"what": "models", "facts": SCRIPTS}
        done = subprocess.run([python, os.path.join(interop.HERE, "peers", "torchtitan_words.py")], input=json.dumps([*tasks, state, *shown, models]),
                              capture_output=True, text=True, check=False)
        if done.returncode == interop.SKIP_STATUS:
            print(done.stdout)
            return interop.SKIP_STATUS
        tool.expect(done.returncode == 0, done.stderr[-2000:])
        found = json.loads(done.stdout)
        for name, expected in leaves.items():
            one = found[name]
            if "torchao is not installed" in one.get("error", ""):  # its config asks for FP8, which needs that package
                print(f"PEER MISSING torchao: {name} is not built")
                continue
            tensors = one.get("tensors", {})
            differ = sorted(path for path in tensors.keys() | expected.keys() if tensors.get(path) != expected.get(path))
            tool.expect(one.get("enable") and not differ, f"{name}: {one.get('error')} {[(p, tensors.get(p), expected.get(p)) for p in differ[:4]]}")
        for task, model_only in zip(shown, (True, False)):
            one = found[task["what"]]
            tool.expect(one.get("enable") and one.get("path") and one.get("model_only") == model_only, f"{task}: {one.get('error')}")
        said = {key: found["state"].get(key) for key in ("path", "enable", "model_only")}
        tool.expect(said == {"path": out, "enable": True, "model_only": False}, f"{said}, {found['state'].get('error')}")
        expect_listed(tool, found["models"])
        print(f"{len(leaves)} models")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
