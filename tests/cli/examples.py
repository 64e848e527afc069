"""Runs the examples in the help of every command, each in a fresh directory with the checkpoint that they name.

    examples.py PROGRAM ROOT

`Qwen3-8B`, and `Qwen/Qwen3-8B` of a hub, is a small checkpoint of that family with widths that its meshes divide. If
a command reads an output, `out` is its conversion. `run` and `resharded` have two steps. `ckpt` is converted again,
and has the output of two workers if a command finishes or removes it. An example must end with 0. It must be a
command of the help that contains it.
"""

import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))

import hub  # noqa: E402  (a package of tests/support)

READS_OUTPUT = ("verify", "inspect", "reshard", "diff")
ENDS_STAGING = ("finalize", "clean")


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def section(text, heading):
    """Returns the lines below a heading of a help, without their indent."""
    found = re.search(rf"^{heading}:\n((?:  .*\n)*)", text, re.M)
    return [line[2:] for line in found.group(1).splitlines()] if found else []


def commands(program, path=()):
    """Returns (command, its help) of every command below the path."""
    text = output(program, *path, "--help")
    yield path, text
    for line in section(text, "Commands"):
        if not line.startswith(" "):
            yield from commands(program, (*path, line.split()[0]))


def make_checkpoint(program, root):
    with open(os.path.join(root, "bench", "e2e", "qwen3-0.6b.json"), encoding="ascii") as file:
        config = json.load(file) | {"num_hidden_layers": 2, "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128,
                                    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16}
    with open("config.json", "w", encoding="ascii") as file:
        json.dump(config, file)
    output(program, "mappings", "example", "qwen3", "Qwen3-8B", "--config", "config.json", "--quiet")
    shutil.copy(os.path.join(root, "mappings", "qwen3.json"), "my_family.json")
    os.remove("config.json")


def prepare(program, command):
    if command[0] in READS_OUTPUT:
        output(program, "convert", "Qwen3-8B", "out", "--quiet")
    for directory in {"run", "resharded"} & set(command):
        for step in ("1000", "2000"):
            output(program, "convert", "Qwen3-8B", directory, "--quiet", "--output-step", step)
    if "ckpt" in command:
        output(program, "convert", "Qwen3-8B", "ckpt", "--quiet")
    if command[0] in ENDS_STAGING:
        for worker in range(2):
            output(program, "convert", "Qwen3-8B", "out", "--quiet", "--worker", f"{worker}/2")


def main():
    program, root = map(os.path.abspath, sys.argv[1:])
    base = os.getcwd()
    os.makedirs("bin")
    os.symlink(program, "bin/hfshard")
    os.environ |= {"PATH": os.path.abspath("bin") + os.pathsep + os.environ["PATH"], "HOME": os.path.abspath("home")}
    for folder in (".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"):
        os.makedirs(os.path.join("home", folder))
    os.makedirs("start")
    os.chdir("start")
    make_checkpoint(program, root)
    server = hub.Hub()
    server.add("Qwen/Qwen3-8B", {"main": "Qwen3-8B"})
    os.environ |= {"HF_ENDPOINT": server.endpoint, "HF_HUB_OFFLINE": "0", "HF_HUB_CACHE": os.path.join(base, "cache")}
    count = 0
    problems = []
    for command, text in commands(program):
        lines = section(text, "Examples")
        if not lines and not section(text, "Commands"):
            problems.append(f"{' '.join(command)}: no examples")
        where = os.path.join(base, str(count))
        for line in lines:
            if line.startswith("# "):  # those without their own word continue in the same directory
                where = os.path.join(base, str(count))
            if line.startswith("# "):
                continue
            count += 1
            if " ".join(["hfshard", *command]) not in line:
                problems.append(f"{' '.join(command)}: an example of another command: {line}")
            if not os.path.exists(where):
                shutil.copytree(os.path.join(base, "start"), where)
                os.chdir(where)
                prepare(program, line.split()[1:])
            done = subprocess.run(["bash", "-c", "set -o pipefail; " + line], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                problems.append(f"{line}: status {done.returncode}\n{done.stdout}{done.stderr}")
    print("\n".join(problems) if problems else "examples: ok")
    return 1 if problems or count < 24 else 0


if __name__ == "__main__":
    sys.exit(main())
