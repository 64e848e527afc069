"""Runs every command with --json in the current directory and compares the members with docs/json.md, both ways.

    json_docs.py PROGRAM json.md

A printed member must be in the table of its command. Some run must print each member of a table, unless its meaning
begins with `only`.
"""

import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))

import hub  # noqa: E402  (a package of tests/support)

COMMON = {"schema", "command"}
# Objects whose members aren't the command's own.
OPAQUE = {"identity", "metadata", "config", "checks"}
HEADING = "mappings check --all"


def read_tables(path):
    """Returns heading -> member -> is it optional?"""
    tables, table = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("## "):
                table = tables.setdefault(line[3:].strip(), {})
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if table is None or len(cells) != 3 or not cells[0].startswith("`"):
                continue
            for name in re.findall(r"`([^`]+)`", cells[0]):
                table[name] = cells[2].startswith("only")
    return tables


def members(value, at=""):
    """Yields every member of an object as a path: `leaves[].path`. Also yields objects that have members."""
    for key, item in value.items():
        path = f"{at}{key}"
        if isinstance(item, dict) and path not in OPAQUE:
            if path != "error":
                yield path
            yield from members(item, path + ".")
        elif isinstance(item, list) and item and isinstance(item[0], dict) and path not in OPAQUE:
            for entry in item:
                yield from members(entry, path + "[].")
        elif not (isinstance(item, list) and not item):
            yield path
        else:
            yield path + "(empty)"


class Check:
    """The program, the documented members, and the printed ones."""

    def __init__(self, program, docs):
        self.program = program
        self.docs = docs
        self.tables = read_tables(docs)
        self.seen = {}
        self.problems = []

    def run(self, status, heading, *words):
        """Runs one command. Its object must have the members of `heading`."""
        done = subprocess.run([self.program, *words, "--json"], capture_output=True, text=True, check=False)
        name = " ".join(words)
        if done.returncode != status:
            self.problems.append(f"{name}: status {done.returncode}, expected {status}: {done.stderr.strip()}")
        try:
            value = json.loads(done.stdout)
        except ValueError as error:
            self.problems.append(f"{name}: stdout is not one JSON object: {error}")
            return {}
        known = self.tables[heading]
        seen = self.seen.setdefault(heading, set())
        for path in set(members(value)) - COMMON:
            if path.startswith("error."):
                self.seen.setdefault("error", set()).add(path)
                if path not in self.tables["error"]:
                    self.problems.append(f"{name}: {path} is not documented")
                continue
            bare = path.removesuffix("(empty)")
            seen.add(bare)
            listed = bare in known or (path != bare and any(other.startswith(bare + "[]") for other in known))
            if not listed:
                self.problems.append(f"{name}: {bare} is not documented under {heading}")
        return value

    def finish(self):
        """Reports members that no run has printed."""
        for heading, table in self.tables.items():
            for name, optional in table.items():
                if name not in COMMON and not optional and name not in self.seen.get(heading, set()):
                    self.problems.append(f"{heading}: {name} is documented and never printed")


def damage(path, offset):
    """Flips one bit of a file."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def truncate(source, copy, cut_bytes):
    """Makes a copy of a source whose file ends too early."""
    shutil.copytree(source, copy)
    path = os.path.join(copy, "model.safetensors")
    os.truncate(path, os.path.getsize(path) - cut_bytes)


def without_tensor(source, copy, old, new):
    """Makes a copy of a source in which a tensor has another name of the same length."""
    shutil.copytree(source, copy)
    path = os.path.join(copy, "model.safetensors")
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(data.replace(old.encode(), new.encode(), 1))


def with_config(source, copy, **changes):
    """Makes a copy of a source whose config.json has other values."""
    shutil.copytree(source, copy)
    path = os.path.join(copy, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**config, **changes}, file)


def facts(check):
    """Checks the facts about a source in addition to its figures, for every command that plans: warnings, notes,
    drops."""
    with_config("hf", "doubtful", architectures=["LlamaForCausalLM"])
    shutil.copy("hf/model.safetensors", "doubtful/consolidated.safetensors")  # ignored, with a note
    found = {
        "plan": check.run(0, "plan", "plan", "doubtful", "--exclude", "lm_head*"),
        "convert": check.run(0, "convert", "convert", "doubtful", "doubtful-out", "--exclude", "lm_head*"),
        "link": check.run(0, "link", "link", "doubtful", "doubtful-linked", "--exclude", "lm_head*"),
    }
    check.run(0, "convert", "convert", "doubtful", "doubtful-parts", "--exclude", "lm_head*", "--worker", "0/2")
    check.run(0, "convert", "convert", "doubtful", "doubtful-parts", "--exclude", "lm_head*", "--worker", "1/2")
    found["finalize"] = check.run(0, "finalize", "finalize", "doubtful-parts")
    for name, value in found.items():
        said = {key: value.get(key) for key in ("family", "scheme", "layers")}
        if said != {"family": "qwen3", "scheme": "maxtext", "layers": "stacked"}:
            check.problems.append(f"{name}: {said}")
        if not any("LlamaForCausalLM" in text and "qwen3" in text for text in value.get("warnings", [])):
            check.problems.append(f"{name}: no warning of model_type and architectures: {value.get('warnings')}")
        if not value.get("notes"):
            check.problems.append(f"{name}: no notes")
        dropped = [tensor for drop in value.get("drops", []) for tensor in drop["tensors"]]
        if dropped != ["lm_head.weight"]:
            check.problems.append(f"{name}: dropped are {dropped}")
    agreed = check.run(0, "plan", "plan", "hf", "--layers", "separate")
    if agreed.get("warnings") != [] or agreed.get("layers") != "separate":
        check.problems.append(f"plan of what agrees: {agreed.get('warnings')}, {agreed.get('layers')}")


def conversions(check):
    check.run(0, "mappings example", "mappings", "example", "qwen3", "hf")
    check.run(0, "plan", "plan", "hf", "out", "--mesh", "fsdp=2")
    check.run(0, "plan", "plan", "hf", "--to", "dcp", "--dialect", "modules")
    check.run(0, "mappings show", "mappings", "show", "qwen3", "--scheme", "hf", "--dialect", "modules")
    check.run(0, "mappings check", "mappings", "check", "hf", "--scheme", "hf", "--dialect", "modules")
    check.run(0, "mappings example", "mappings", "example", "qwen3", "large", "--dtype", "f32", "--sparse", "--config",
              os.path.join(os.path.dirname(check.docs), "..", "bench", "e2e", "qwen3-0.6b.json"))
    check.run(0, "plan", "plan", "large", "out", "--dtype", "bf16")
    refused = check.run(3, "plan", "plan", "hf", "out", "--max-memory", "1MiB")
    if "error" not in refused:
        check.problems.append("plan that does not fit: no error in the object")
    check.run(0, "convert", "convert", "hf", "out", "--mesh", "fsdp=2")
    check.run(0, "convert", "convert", "hf", "out", "--mesh", "fsdp=2", "--resume")
    check.run(3, "convert", "convert", "hf", "out")
    check.run(0, "convert", "convert", "hf", "--to", "null")
    check.run(0, "convert", "convert", "hf", "parts", "--worker", "0/2")
    check.run(3, "finalize", "finalize", "parts")
    check.run(0, "convert", "convert", "hf", "parts", "--worker", "1/2")
    check.run(0, "finalize", "finalize", "parts")
    with hub.Hub() as server:
        server.add("org/hf", {"main": "hf"})
        os.environ |= {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": server.endpoint}
        check.run(0, "convert", "convert", "org/hf", "streamed")
        os.environ["HF_HUB_OFFLINE"] = "1"
    check.run(0, "clean", "clean", "out")
    check.run(0, "plan", "plan", "hf", "--link", "--dtype", "f32")
    check.run(0, "plan", "plan", "hf", "--mesh", "fsdp=2", "--load-mesh", "fsdp=2", "--devices-per-host", "2")
    check.run(0, "link", "link", "hf", "linked", "--cast", "*norm*=f32")


def readings(check):
    tiny = os.path.join(os.path.dirname(check.docs), "..", "tests", "support", "tiny_dcp.py")
    for words in (["tiny"], ["tiny-other", "--lr", "0.5"]):
        subprocess.run([sys.executable, tiny, *words], check=True)
    check.run(5, "diff", "diff", "tiny", "tiny-other")
    check.run(0, "verify", "verify", "out", "hf")
    check.run(0, "verify", "verify", "out")
    check.run(0, "diff", "diff", "hf", "out", "--all")
    check.run(0, "inspect", "inspect", "hf")
    check.run(0, "inspect", "inspect", "out", "--data")
    check.run(0, "inspect", "inspect", "out", "--load-mesh", "fsdp=2")
    truncate("hf", "short", 100)
    check.run(3, "inspect", "inspect", "short")
    damage("out/0/items/d/00000", 100)
    check.run(5, "verify", "verify", "out")
    check.run(0, "convert", "convert", "hf", "unchecked", "--checksum", "none")
    damage("unchecked/0/items/d/00000", 100)
    check.run(5, "verify", "verify", "unchecked", "hf")
    check.run(5, "diff", "diff", "out", "hf")
    shutil.copytree("hf", "other")
    damage("other/model.safetensors", os.path.getsize("other/model.safetensors") - 1)
    check.run(5, "diff", "diff", "hf", "other")
    check.run(5, "diff", "diff", "large", "hf")
    check.run(3, "inspect", "inspect", "out", "--data")
    check.run(3, "inspect", "inspect", "nowhere")


def fetches(check):
    with hub.Hub() as server:
        server.add("org/model", {"main": "hf"})
        os.environ.update(HF_ENDPOINT=server.endpoint, HF_HUB_CACHE="cache", HF_HUB_OFFLINE="0")
        check.run(0, "fetch", "fetch", "org/model")
        check.run(3, "fetch", "fetch", "org/none")


def mappings(check):
    check.run(0, "mappings list", "mappings", "list")
    check.run(0, "mappings show", "mappings", "show", "llama")
    check.run(0, "mappings check", "mappings", "check", "hf", "--exclude", "lm_head*")
    without_tensor("hf", "unmatched", "model.norm.weight", "model.gnome.weigh")
    check.run(3, "mappings check", "mappings", "check", "unmatched")
    if os.environ.get("SANITIZED"):
        del check.tables[HEADING]  # it takes a minute there, and unit_plan compiles every table under the same sanitizer
    else:
        check.run(0, HEADING, "mappings", "check", "--all")
    check.run(2, "mappings check", "mappings", "check", "--bogus")


def main():
    program, docs = sys.argv[1:]
    check = Check(program, docs)
    for part in (conversions, facts, readings, fetches, mappings):
        part(check)
    check.finish()
    for problem in check.problems:
        print(problem)
    print("docs/json.md: " + ("wrong" if check.problems else "ok"))
    return 1 if check.problems else 0


if __name__ == "__main__":
    sys.exit(main())
