#!/usr/bin/env python3
"""Gives the words that `plan` says a model is loaded with to MaxText's own reading of its configuration.

    next_words.py --hfshard PROGRAM

Every model of tests/oracle/trees, stacked and separate, by text alone and with its parts, and of text the fewest layers that there
are: MaxText accepts the words, and its configuration has what they say. HFSHARD_MAXTEXT_PYTHON and HFSHARD_MAXTEXT_SRC name MaxText (scripts/test --with-maxtext).
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

TREES = os.path.join(interop.ORACLE, "trees")
PEER = os.path.join(interop.HERE, "peers", "maxtext_words.py")


def words_of(tool, source, options):
    """What the loader is told; None where the model does not go into this layout."""
    done = tool.run_any("plan", source, "--to", "null", "--json", "--quiet", *options)
    return json.loads(done.stdout).get("load_words") if done.returncode == 0 else None


def tasks_of(tool, name):
    model = oracle_dirs.read_json(TREES, f"{name}.json")
    source, config = tool.path("source"), tool.path("config.json")
    shutil.rmtree(source, ignore_errors=True)
    with open(config, "w", encoding="utf-8") as file:
        json.dump(model["config"], file)
    parts = sorted({part for tree in model["trees"] for part in tree["with"]})
    tool.run("mappings", "example", model["family"], source, "--config", config, "--sparse", "--quiet",
             *(["--with", ",".join(parts)] if parts else []))
    for layers in ("stacked", "separate"):
        for chosen in ([], parts) if parts else ([],):
            options = ["--layers", layers, *(["--with", ",".join(chosen)] if chosen else [])]
            words = words_of(tool, source, options)
            if words is not None:
                yield {"what": " ".join([name, *options]), "words": words}
            if words is not None and not chosen:
                yield first_layers(tool, name, source, options, [word for word in words if word.startswith("model_name=")])


def first_layers(tool, name, source, options, named):
    """The words of the fewest layers of a model."""
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


def readme_tasks():
    """The words behind MaxText's commands in README.md."""
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
        tasks = [task for name in names for task in tasks_of(tool, name)]
        tool.expect(len(tasks) >= len(names), f"only {len(tasks)} configurations of {len(names)} models")
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
