#!/usr/bin/env python3
"""Checks that --scheme hf --dialect modules gives transformers 5's names, shapes and values of the state_dict.

module_names.json has transformers' own results for checkpoints of tests/oracle (and one of tests/torchtitan), from
its own loading code, as f32. One line has the tensors of each layer. Its hash covers all of them in their order
(--update writes it). The test compares them with checkpoints that real torch.distributed.checkpoint reads. For the
export, it compares the original files. With --transformers, it runs transformers again, which loads hfshard's output
strictly.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import dcp_variants
import interop

TABLE = os.path.join(interop.HERE, "module_names.json")
PEER = os.path.join(interop.HERE, "peers", "module_hashes.py")
# transformers 5.23 and 5.24 spread the scales of blocks evenly over an axis whose last block is cut off. Only names and
# shapes count.
CUT_OFF = ("deepseek3-fp8", "qwen3-moe-fp8")
CODES = ("F8_E4M3", "U8")
STRICT = ("qwen3-moe", "mixtral", "gemma3", "deepseek3")
FOREIGN = (*STRICT, "qwen3-vl-moe", "qwen3-omni", "qwen2-vl")
BACK = ("deepseek4", "gemma3", "qwen3-omni", "qwen2-vl", "qwen3-vl-moe", "mixtral")
ORBAX = ("mixtral",)


def ask(python, mode, *words, **request):
    done = subprocess.run([python, PEER, mode, *words], input=json.dumps(request), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"FAIL {mode} {' '.join(words)}\n{done.stdout}{done.stderr}")
        sys.exit(1)
    return json.loads(done.stdout.splitlines()[-1])


def fold(state):
    """Returns lines of a table: `a.{0-2}.b` -> "shape hash". The first number of a name counts."""
    groups = {}
    for name, facts in state.items():
        number = re.search(r"(?<=\.)\d+(?=\.)", name)
        key = name if number is None else name[:number.start()] + "{}" + name[number.end():]
        shape = "x".join(map(str, facts["shape"])) or "scalar"
        groups.setdefault((key, shape), []).append((int(number.group()) if number else 0, facts["sha256"]))
    out = {}
    for (key, shape), members in groups.items():
        members.sort()
        numbers = [number for number, _ in members]
        even = len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1))
        shown = f"{numbers[0]}-{numbers[-1]}" if even else ",".join(map(str, numbers))
        digest = hashlib.sha256("".join(sha for _, sha in members).encode()).hexdigest()
        out[key.replace("{}", "{" + shown + "}")] = f"{shape} {digest[:16]}"
    return dict(sorted(out.items()))


def unfold(lines):
    """Returns name -> shape."""
    out = {}
    for key, value in lines.items():
        shape = value.split()[0]
        extents = [] if shape == "scalar" else [int(extent) for extent in shape.split("x")]
        numbers = re.search(r"\{([^}]*)\}", key)
        for number in [""] if numbers is None else counted(numbers.group(1)):
            out[key if numbers is None else key.replace(numbers.group(), str(number))] = extents
    return out


def counted(text):
    first, dash, last = text.partition("-")
    return range(int(first), int(last) + 1) if dash else [int(number) for number in text.split(",")]


def source_of(name):
    return os.path.join(interop.ORACLE, name)


def made(tool, name):
    return tool.path(os.path.basename(name))


def is_quantized(name):
    with open(os.path.join(source_of(name), "config.json"), encoding="utf-8") as file:
        return "quantization_config" in file.read()


def values_words(name):
    """Returns the options for comparing codes before they are rounded."""
    return ["--dtype", "f32"] if is_quantized(name) else []


def check_names(tool, python, table):
    """Checks the output as torch reads it, and its export."""
    asked = {}
    for name, lines in table.items():
        out = made(tool, name)
        tool.run("convert", source_of(name), out, "--to", "dcp", "--dialect", "modules", "--quiet", *values_words(name))
        asked[out] = unfold(lines)
    found = ask(python, "dcp", **asked)
    for name, lines in table.items():
        state = found[made(tool, name)]
        if not isinstance(state, dict):
            tool.expect(False, f"{name}: {state}")
            continue
        here = fold(state)
        for key, value in lines.items():
            same = here.get(key) == value or (name in CUT_OFF and here.get(key, "").split()[:1] == value.split()[:1])
            tool.expect(same, f"{name}: {key} is {here.get(key)}, not {value}")


def check_back(tool, name, checkpoint, what, *words):
    """Checks the files again, as far as a checkpoint without codes can hold them."""
    back = tool.path("back")
    tool.run("convert", checkpoint, back, "--to", "safetensors", "--quiet", *words)
    was, here = interop.tensors_of(source_of(name)), interop.tensors_of(back)
    if is_quantized(name):  # it leads back to the same model
        again = tool.path("again")
        tool.run("convert", back, again, "--to", "dcp", "--dialect", "modules", "--quiet", *values_words(name))
        tool.run("diff", checkpoint, again)
        shutil.rmtree(again)
    else:
        tool.expect(sorted(was) == sorted(here), f"{name}: other names {what}: {sorted(set(was) ^ set(here))[:4]}")
    for key in was.keys() & here.keys():
        tool.expect(was[key] == here[key] or was[key][0] in CODES, f"{name}: {key} differs {what}")
    shutil.rmtree(back)


def check_ways_back(tool, python, table):
    for name in table:
        check_back(tool, name, made(tool, name), "on the way back")
    foreign = [name for name in FOREIGN if name in table]
    ask(python, "rewrite", "model.", *(tool.path(name) for name in foreign))
    for name in foreign:  # from another program, without a record
        check_back(tool, name, tool.path(name + "-theirs"), "by config.json", "--config", source_of(name), "--prefix", "model.")
    for name in set(ORBAX) & table.keys():
        out = tool.path("orbax")
        tool.run("convert", source_of(name), out, "--scheme", "hf", "--dialect", "modules", "--quiet")
        tool.run("verify", out, source_of(name), "--quiet")
        check_back(tool, name, out, "through Orbax")


def stored_state(facts):
    """Returns the state without the vision tower, which the files of a text model lack or have only in part."""
    return {name: tensor for name, tensor in facts["state"].items() if name not in facts["missing"] + facts["mismatched"]}


def check_transformers(tool, python, table):
    said = ask(python, "transformers", *(source_of(name) for name in table))
    for name, lines in table.items():
        facts = said[source_of(name)]
        if str(facts).startswith("ImportError"):  # reads FP8
            print(f"not asked about {name}: {facts.splitlines()[0]}")
            continue
        state = fold(stored_state(facts)) if isinstance(facts, dict) else {}
        tool.expect(state == lines, f"{name}: transformers says otherwise than the table: {sorted(state.items() ^ lines.items())[:4]}")
    for name in STRICT:
        out = tool.path(name + "-model")
        tool.run("convert", source_of(name), out, "--to", "dcp", "--dialect", "modules", "--prefix", "model.", "--quiet")
        differ = ask(python, "strict", source_of(name), out)["differ"]
        tool.expect(not differ, f"{name}: transformers loaded {differ[:4]} otherwise")
    # Some names of files follow from those of modules and a config alone. transformers must load them to the same
    # state.
    files = {name: tool.path(name + "-files") for name in BACK if name in table}
    for name, back in files.items():
        out = tool.path(name + "-theirs")
        tool.run("convert", source_of(name), out, "--to", "dcp", "--dialect", "modules", "--quiet")
        os.remove(os.path.join(out, "hfshard.json"))
        tool.run("convert", out, back, "--to", "safetensors", "--config", source_of(name), "--quiet")
    said = ask(python, "transformers", *files.values())
    for name, back in files.items():
        facts = said[back]
        state = fold(stored_state(facts)) if isinstance(facts, dict) else {}
        tool.expect(state == table[name], f"{name}: transformers loads others from the way back: {sorted(state.items() ^ table[name].items())[:4]}")


def update(python, names):
    """Writes the table of those that transformers loads completely."""
    said = ask(python, "transformers", *(source_of(name) for name in names))
    table = {}
    for name in names:
        facts = said[source_of(name)]
        whole = isinstance(facts, dict) and all(name.startswith("model.visual.") for name in facts["missing"] + facts["mismatched"])
        if not whole:
            print(f"{name}: {facts if isinstance(facts, str) else (facts['missing'][:4], facts['mismatched'][:4])}")
            continue
        print(f"{name}: unexpected {facts['unexpected'][:4]}")
        table[name] = fold(stored_state(facts))
    with open(TABLE, "w", encoding="utf-8") as file:
        json.dump(table, file, indent=1)
        file.write("\n")


def transformers_python():
    python = os.environ.get("HFSHARD_MAXTEXT_PYTHON", "")
    if python and subprocess.run([python, "-c", "import transformers, torch"], capture_output=True, check=False).returncode == 0:
        return python
    print("PEER MISSING transformers: HFSHARD_MAXTEXT_PYTHON")
    sys.exit(interop.SKIP_STATUS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard")
    parser.add_argument("--transformers", action="store_true", help="ask transformers, not its table")
    parser.add_argument("--update", action="store_true", help="write the table: of these fixtures, or of those in it")
    parser.add_argument("fixtures", nargs="*")
    arguments = parser.parse_args()
    table = {}
    if os.path.exists(TABLE):
        with open(TABLE, encoding="utf-8") as file:
            table = json.load(file)
    if arguments.update:
        update(transformers_python(), arguments.fixtures or list(table))
        return 0
    table = {name: table[name] for name in arguments.fixtures or table}
    with tempfile.TemporaryDirectory(prefix="hfshard-modules-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        if arguments.transformers:
            check_transformers(tool, transformers_python(), table)
        else:
            python = dcp_variants.torch_python()
            check_names(tool, python, table)
            check_ways_back(tool, python, table)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
