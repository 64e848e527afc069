"""Runs every command over checkpoints with names that a terminal would obey. Their control characters must not reach
it.

    hostile_names.py HFSHARD

Each name has an escape sequence, a bell, a newline with a forged line after it, and a right-to-left override. The
test prints one line for each output that lets any of them through.
"""

import json
import os
import shutil
import struct
import subprocess
import sys

HFSHARD = sys.argv[1]
FORGED = "hfshard: forged"
EVIL = "\x1b]0;owned\x07\x1b[2J\n" + FORGED + " \u202e"
OBEYED = (b"\x1b", b"\x07", "\u202e".encode(), ("\n" + FORGED).encode(), b"\r")
runs = 0


def shard(path, tensors):
    """Writes a safetensors file of f32 tensors: name to number of elements."""
    header, at = {"__metadata__": {EVIL: EVIL}}, 0
    for name, count in tensors.items():
        header[name] = {"dtype": "F32", "shape": [count], "data_offsets": [at, at + 4 * count]}
        at += 4 * count
    text = json.dumps(header, ensure_ascii=False).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"x" * at)


def source(folder, config):
    """Makes a directory of two shards and an index, in which every name is hostile."""
    os.makedirs(folder)
    files = {f"model-{i}{EVIL}.safetensors": {f"{EVIL}{i}": 8192 if i else 2, f"b{i}.{EVIL}.weight": 64} for i in (0, 1)}
    for name, tensors in files.items():
        shard(os.path.join(folder, name), tensors)
    index = {"metadata": {EVIL: EVIL}, "weight_map": {t: f for f, names in files.items() for t in names}}
    for name, value in (("model.safetensors.index.json", index), ("config.json", config), ("tokenizer.json", {EVIL: EVIL}),
                        (f"tokenizer{EVIL}.json", {})):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False)


def run(*arguments):
    """Runs a command and checks all its output."""
    global runs
    runs += 1
    for json_too in ([], ["--json"]):
        seen = subprocess.run([HFSHARD, *arguments, *json_too], capture_output=True, timeout=120, check=False)
        said = b"\n" + seen.stdout + b"\n" + seen.stderr
        for what in OBEYED:
            if what in said:
                print(f"{[a[:12] for a in arguments]!r}: {what!r} in the output, status {seen.returncode}")
        if seen.returncode not in (0, 2, 3, 4, 5):
            print(f"{[a[:12] for a in arguments]!r}: status {seen.returncode}")
    return seen.returncode


def damaged(checkpoint, copy):
    """Makes a copy in which the middle of the longest file has other bytes."""
    shutil.copytree(checkpoint, copy)
    longest = max((os.path.join(at, name) for at, _, names in os.walk(copy) for name in names), key=os.path.getsize)
    with open(longest, "r+b") as file:
        file.seek(os.path.getsize(longest) // 2)
        file.write(b"\xff" * 64)


def main():
    hf = "s" + EVIL
    source(hf, {"model_type": EVIL, "architectures": [EVIL], EVIL: EVIL, "quantization_config": {"quant_method": EVIL}})
    source("llama", {"model_type": "llama", "hidden_size": EVIL, EVIL: 1})
    source("qwen" + EVIL, {"model_type": "qwen3", "architectures": [EVIL]})
    with open("m.json", "w", encoding="utf-8") as file:
        json.dump({"schema": 1, "family": EVIL, "match": {"model_type": [EVIL]}, "dims": {EVIL: EVIL}}, file)
    for each in (hf, "llama", "qwen" + EVIL, hf + "/model.safetensors.index.json", "absent" + EVIL, "m.json"):
        for more in (["plan"], ["inspect"], ["verify"], ["convert", "--dry-run"], ["mappings", "check"], ["diff"]):
            command = [*more[:2], each] if more[0] == "mappings" else [more[0], each, *more[1:]]
            run(*command, *(["out" + EVIL] if more[0] == "convert" else [hf] if more[0] == "diff" else []))
        run("plan", each, "--mapping", "m.json")
        run("plan", each, "--option", "x" + EVIL + "=1", "--include", EVIL, "--exclude", EVIL)
    run("mappings", "show", EVIL)
    run("mappings", "check", hf, "--mapping", "m.json")
    for option in ("--to", "--scheme", "--mesh", "--dtype", "--chunk-bytes", "--root", "--prefix", "--config", "--step"):
        run("plan", hf, option, EVIL)
    for command in ("finalize", "clean", "fetch", "link", "reshard", "inspect", EVIL, "--" + EVIL):
        run(command, "x" + EVIL)

    written = {"orbax": "ck" + EVIL, "dcp": "dcp" + EVIL, "safetensors": "st" + EVIL}
    for target, out in written.items():
        run("plan", hf, "--scheme", "hf", "--to", target)
        run("plan", hf, "--scheme", "hf", "--to", target, "--mesh", "fsdp=2")
        run("convert", hf, out, "--scheme", "hf", "--to", target)
        if not os.path.isdir(out):
            print(f"no output of --to {target}")
            continue
        run("inspect", out)
        run("inspect", out, "--chunks")
        run("inspect", out, "--data")
        run("verify", out)
        run("verify", out, hf)
        for to in written:
            run("plan", out, "--to", to)
            run("convert", out, "again" + EVIL, "--to", to, "--dry-run")
        run("reshard", out, "re" + target + EVIL, "--mesh", "fsdp=2")
        run("diff", hf, out)
        run("diff", hf, out, "--all")
        run("mappings", "check", out)
        damaged(out, out + "-bad")
        for command in (["verify"], ["inspect", "--data"], ["inspect", "--chunks"], ["diff", hf], ["reshard"]):
            run(command[0], out + "-bad", *(["x" + EVIL] if command[0] == "reshard" else command[1:]))
    run("plan", hf, "--scheme", "hf", "--link")
    run("plan", hf, "--scheme", "hf", "--load-mesh", "fsdp=2")
    run("link", hf, "link" + EVIL, "--scheme", "hf")
    run("inspect", "link" + EVIL, "--load-mesh", "fsdp=2")
    run("verify", "link" + EVIL)
    run("clean", "link" + EVIL)
    print(f"{'many' if runs > 100 else runs} commands, twice each")


main()
