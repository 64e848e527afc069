#!/usr/bin/env python3
"""Checks that Hugging Face directories whose tensors have the names of transformers' modules are models like others.

Each checkpoint of module_names.json becomes such a directory (convert --to safetensors --dialect modules). From
there it becomes the files' names, MaxText's and torchtitan's. It does so by its record and, without hfshard.json, by
the names alone. The results equal those of the original directory, bit for bit. Files of the family also have some
of these names (BOTH). They stay unless a record identifies them. An output from such a directory is exported to the
names of the model's files, and verified against it. The test needs no peer.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

import interop
import oracle_dirs

TABLE = os.path.join(interop.HERE, "module_names.json")
READ_AS = "the source has the names of --dialect modules, as "
# Names that files of the family have too: published that way, or the same in another shape.
BOTH = {
    "gemma", "gemma2", "gemma3-text", "gemma3", "gemma4-dense", "gemma4-e2b", "gemma4-moe", "llama4-scout-text", "qwen3-vl-moe",
    "qwen3-vl-text", "qwen3-vl", "qwen3.5-dense", "qwen3.5-text", "qwen3", "qwen2-vl"}
# Their files have names other than the Hub's, to which names alone lead.
NOT_PUBLISHED = {"deepseek4"}
MORE = ["deepseek4-released"]
# Queries that are decoded and scaled. They are rounded once from codes, and again from values.
ROUNDED_TWICE = ("mistral-fp8",)
# Every format and command accepts them.
THROUGH = ("qwen3-moe", "gemma3", "deepseek3-fp8")


def words_of(name):
    return [] if name.startswith("..") else oracle_dirs.OracleDir(name).words()


def is_quantized(source):
    return "quantization_config" in oracle_dirs.read_json(source, "config.json")


def read_as(report):
    said = [note[len(READ_AS):] for note in report["notes"] if note.startswith(READ_AS)]
    return said[0] if said else None


def converted(tool, source, out, *words):
    """Returns the printed text and the output, or nothing if it isn't possible."""
    done = tool.run_any("convert", source, out, "--to", "safetensors", "--json", *words)
    if done.returncode != 0:
        return None, done.stdout + done.stderr
    found = interop.tensors_of(out)
    shutil.rmtree(out)
    return read_as(json.loads(done.stdout)), found


def files_of(tool, source):
    """Returns the tensors under the files' names, with codes decoded."""
    found = interop.tensors_of(source)
    if not is_quantized(source):
        return found
    decoded = converted(tool, source, tool.path("decoded"), "--scheme", "hf", "--dtype", "bf16")[1]
    return {name: found[name] if name in found and found[name][0] in ("BF16", "F16", "F32") else tensor for name, tensor in decoded.items()}


def differing(found, expected):
    """Returns tensors with the same names that differ."""
    return [name for name in found.keys() & expected.keys() if found[name] != expected[name]]


def compare(tool, what, found, expected):
    if not isinstance(found, dict):
        tool.expect(False, f"{what}: {found}")
        return
    tool.expect(set(found) == set(expected), f"{what}: other names: {sorted(set(found) ^ set(expected))[:4]}")
    differ = differing(found, expected)
    tool.expect(not differ, f"{what}: {len(differ)} differ: {differ[:4]}")


def check_model(tool, name):
    source, made = os.path.join(interop.ORACLE, name), tool.path("modules")
    tool.run("convert", source, made, "--to", "safetensors", "--dialect", "modules", "--quiet")
    files, modules = files_of(tool, source), interop.tensors_of(made)
    targets = {scheme: ["--scheme", scheme, *words_of(name)] for scheme in ("maxtext", "torchtitan")}
    direct = {scheme: converted(tool, source, tool.path("direct"), *words)[1] for scheme, words in targets.items()}
    same = files.keys() == modules.keys() and files == modules
    for record in (True, False):
        if not record:
            os.remove(os.path.join(made, "hfshard.json"))
        said, found = converted(tool, made, tool.path("files"), "--scheme", "hf", "--dialect", "files")
        by_name = name in BOTH or same
        how = "hfshard.json says" if record else None if by_name else "they show"
        tool.expect(said == how, f"{name}: read as modules since {said}, not {how}{'' if isinstance(found, dict) else ': ' + found}")
        if record or name not in NOT_PUBLISHED:
            compare(tool, f"{name}, record {record}: files", found, modules if not record and by_name else files)
        for scheme, words in targets.items():
            found = converted(tool, made, tool.path("other"), *words)[1]
            tool.expect(isinstance(found, dict) == isinstance(direct[scheme], dict), f"{name}: {scheme}: {str(found)[:300]}")
            if not isinstance(direct[scheme], dict):
                continue
            if name in ROUNDED_TWICE and scheme == "maxtext":  # nothing else differs
                scaled = set(differing(found, direct[scheme]))
                tool.expect(all(".query." in leaf for leaf in scaled), f"{name}: {sorted(scaled)}")
                found.update({leaf: direct[scheme][leaf] for leaf in scaled})
            compare(tool, f"{name}, record {record}: {scheme}", found, direct[scheme])
        again = converted(tool, made, tool.path("again"), "--scheme", "hf", "--dialect", "modules")[1]
        compare(tool, f"{name}, record {record}: modules", again, modules)
    shutil.rmtree(made)


def check_through(tool, name):
    """Checks every format, and outputs from such a directory."""
    source, made = os.path.join(interop.ORACLE, name), tool.path("modules")
    words = words_of(name)
    tool.run("convert", source, made, "--to", "safetensors", "--dialect", "modules", "--prefix", "model.", "--quiet")
    files = files_of(tool, source)
    for to, scheme in (("orbax", "maxtext"), ("dcp", "hf"), ("orbax", "hf"), ("dcp", "torchtitan"), ("dcp", "modules")):
        out, direct, back = tool.path("out"), tool.path("direct"), tool.path("back")
        chosen = ["--to", to] + (["--scheme", "hf", "--dialect", "modules"] if scheme == "modules" else ["--scheme", scheme])
        chosen += words if scheme == "maxtext" else []
        if tool.run_any("plan", source, *chosen).returncode != 0:
            continue
        decode = ["--dtype", "bf16"] if scheme == "hf" and is_quantized(source) else []
        tool.run("convert", source, direct, *chosen, *decode, *interop.SHRUNKEN[:2])
        tool.run("convert", made, out, *chosen, *interop.SHRUNKEN)
        report = tool.json("diff", out, direct, "--dtype-aware")
        tool.expect(report["equal"] and report["compared_tensors"] > 8, f"{name}: {to} {scheme}: {report}")
        tool.run("verify", out)
        tool.run("verify", out, made)
        tool.run("convert", out, back, "--to", "safetensors", "--quiet")
        if scheme != "maxtext" or not words:
            found = interop.tensors_of(back)
            tool.expect(set(found) <= set(files) and found, f"{name}: {to} {scheme}: goes back to {sorted(set(found) - set(files))[:4]}")
            if scheme == "hf" or not is_quantized(source):
                tool.expect(all(found[key] == files.get(key) for key in found), f"{name}: {to} {scheme}: goes back to other values")
        for path in (out, direct, back):
            shutil.rmtree(path)
    for a, b in ((source, made), (made, source)):
        report = tool.json("diff", a, b)
        tool.expect(report["equal"] and report["through"], f"{name}: {report}")
    shutil.rmtree(made)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("fixtures", nargs="*")
    arguments = parser.parse_args()
    with open(TABLE, encoding="utf-8") as file:
        names = arguments.fixtures or [*json.load(file), *MORE]
    with tempfile.TemporaryDirectory(prefix="hfshard-directories-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        for name in names:
            check_model(tool, name)
            if name in THROUGH:
                check_through(tool, name)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
