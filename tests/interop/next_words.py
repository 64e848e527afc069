#!/usr/bin/env python3
"""Gives the loading arguments from `plan` to MaxText's own parser of its configuration.

    next_words.py --hfshard PROGRAM

The test covers every model of tests/oracle/trees and every published one that a mapping lists, stacked and separate.
It uses only the text, and the model with its parts, and the fewest possible layers of the text. MaxText accepts the
arguments, and its configuration has their values. HFSHARD_MAXTEXT_PYTHON and HFSHARD_MAXTEXT_SRC name MaxText
(scripts/test --with-maxtext).
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

sys.path.insert(0, interop.ORACLE)
import oracle_dirs  # pylint: disable=wrong-import-position

MAPPINGS = os.path.join(interop.HERE, os.pardir, os.pardir, "mappings")
TREES = os.path.join(interop.ORACLE, "trees")
LEAST_LISTED = 100
PEER = os.path.join(interop.HERE, "peers", "maxtext_words.py")


def words_of(tool, source, options):
    """Returns the loader's arguments, or None if the model doesn't have this layout."""
    done = tool.run_any("plan", source, "--to", "null", "--json", "--quiet", *options)
    return json.loads(done.stdout).get("load_words") if done.returncode == 0 else None


def tasks_of(tool, what, family, config, parts, first):
    source, written = tool.path("source"), tool.path("config.json")
    shutil.rmtree(source, ignore_errors=True)
    with open(written, "w", encoding="utf-8") as file:
        json.dump(config, file)
    example = ["mappings", "example", family, source, "--config", written, "--sparse", "--quiet"]
    if not parts or tool.run_any(*example, "--with", ",".join(parts)).returncode != 0:
        tool.run(*example)
    for layers in ("stacked", "separate"):
        for chosen in ([], parts) if parts else ([],):
            options = ["--layers", layers, *(["--with", ",".join(chosen)] if chosen else [])]
            words = words_of(tool, source, options)
            if words is not None:
                yield {"what": " ".join([what, *options]), "words": words}
            if words is not None and not chosen and first:
                yield first_layers(tool, what, source, options, [word for word in words if word.startswith("model_name=")])


def first_layers(tool, name, source, options, named):
    """Returns the arguments for the fewest layers of a model."""
    for count in range(1, 9):
        more = [*options, "--num-layers", str(count)]
        words = words_of(tool, source, more)
        if words is None:
            continue
        layers = count // 2 if name.startswith("gemma2") else count  # MaxText's have two each
        what = " ".join([name, *more])
        tool.expect(f"base_num_decoder_layers={layers}" in words, f"{what}: {words}")
        tool.expect(not named or {*named, "override_model_config=true"} <= set(words), f"{what}: {words}")
        return {"what": what, "words": words}
    raise AssertionError(f"{name} has no first layers")


def of_trees(tool, names):
    for name in names:
        model = oracle_dirs.read_json(TREES, f"{name}.json")
        parts = sorted({part for tree in model["trees"] for part in tree["with"]})
        yield from tasks_of(tool, name, model["family"], model["config"], parts, True)


def nested(values):
    """Returns {"a": {"b": 1}} for {"a.b": 1}."""
    out = {}
    for name, value in values.items():
        *folders, last = name.split(".")
        at = out
        for folder in folders:
            at = at.setdefault(folder, {})
        at[last] = value
    return out


def listed_models(sizes):
    """Returns (name, facts of its config.json) of each model. mappings/README.md has the short form."""
    if "models" not in sizes:
        yield from sizes.items()
        return
    for name, row in sizes["models"].items():
        if isinstance(row, str):
            continue  # the same as another one
        count = len(sizes["keys"])
        yield name, {**sizes.get("all", {}), **dict(zip(sizes["keys"], row)), **(row[count] if len(row) > count else {})}


def of_sizes(tool):
    """Returns the models that the mappings list under `sizes`, with a tower if their config.json describes one."""
    for file in sorted(name for name in os.listdir(MAPPINGS) if name.endswith(".json")):
        for name, facts in listed_models(oracle_dirs.read_json(MAPPINGS, file).get("sizes", {"models": {}})):
            config = nested(facts)
            towers = [tower for tower in ("vision", "audio") if f"{tower}_config" in {**config, **config.get("thinker_config", {})}]
            yield from tasks_of(tool, name, file.removesuffix(".json"), config, towers, False)


def readme_tasks():
    """Returns the arguments after MaxText's commands in README.md."""
    with open(os.path.join(interop.HERE, os.pardir, os.pardir, "README.md"), encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith("python3 -m maxtext."):
            module, base, *words = shlex.split(line)[2:]
            yield {"what": module, "module": module, "base": base, "words": words}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("models", nargs="*", help="just these files of tests/oracle/trees")
    arguments = parser.parse_args()
    python, src = (os.environ.get(f"HFSHARD_MAXTEXT_{name}", "") for name in ("PYTHON", "SRC"))
    if not python or not os.path.isdir(os.path.join(src, "maxtext")):
        print("PEER MISSING maxtext: HFSHARD_MAXTEXT_PYTHON and HFSHARD_MAXTEXT_SRC (scripts/test --with-maxtext)")
        return interop.SKIP_STATUS
    names = arguments.models or sorted(name.removesuffix(".json") for name in os.listdir(TREES)
                                       if name.endswith(".json") and name != "oddities.json")
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        tasks = list(of_trees(tool, names))
        tool.expect(len(tasks) >= len(names), f"only {len(tasks)} configurations of {len(names)} models")
        if not arguments.models:
            listed = list(of_sizes(tool))
            tool.expect(len(listed) >= LEAST_LISTED, f"only {len(listed)} configurations of the mappings' sizes")
            said = {json.dumps(task["words"]) for task in tasks}
            tasks += [task for task in listed if json.dumps(task["words"]) not in said and not said.add(json.dumps(task["words"]))]
        commands = list(readme_tasks())
        tool.expect(len(commands) == 2, f"README.md has {len(commands)} commands of MaxText")
        tasks += commands
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": src}
        done = subprocess.run([python, PEER], input=json.dumps(tasks), capture_output=True, text=True, env=environment,
                              check=False)
        tool.expect(done.returncode == 0, f"MaxText ends with {done.returncode}: {done.stderr[-2000:]}")
        answers = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else []
        for task, answer in zip(tasks, answers, strict=True):
            tool.expect(not answer, f"{task['what']}: {' '.join(task['words'])}: {answer}")
        print(f"{len(answers)} configurations, and README's commands")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
