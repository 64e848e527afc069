#!/usr/bin/env python3
"""Runs `mappings check` on the config.json and the tensor names of published models (tests/oracle/hub).

Each file there has the names folded and states the result: the family and the dropped tensors, or the reason why
hfshard refuses the model. Shapes aren't known, so hfshard must say that it hasn't seen any. Then the test removes,
adds and misspells single names. hfshard must find each. `--fold DIR` prints such a file for a directory with
config.json and an index.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile

import folded_names
import interop
import oracle_dirs

HUB = os.path.join(interop.ORACLE, "hub")


def digest(names):
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def write_checkpoint(folder, config, names):
    """Writes config.json and an index, without tensor data."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    weight_map = {name: "model-00001-of-00001.safetensors" for name in names}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": weight_map}, file)


def report_of(tool, folder, words, what):
    """Returns (exit status, JSON report). Any status but 0, 2 and 3 is a crash."""
    done = tool.run_any("mappings", "check", folder, "--json", *words)
    said = done.stdout[-500:] + done.stderr[-500:]
    tool.expect(done.returncode in (0, 2, 3), f"{what}: ends with {done.returncode}\n{said}")
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        tool.expect(False, f"{what}: prints no JSON but {done.stdout[:300]!r}")
        return done.returncode, {}


def check_taken(tool, folder, names, check, what):
    status, report = report_of(tool, folder, check["words"], what)
    facts = {key: report.get(key) for key in ("family", "problems", "shapes_seen", "tensors")}
    wanted = {"family": check["family"], "problems": [], "shapes_seen": False, "tensors": len(names)}
    tool.expect(status == 0 and facts == wanted, f"{what}: ends with {status}, {str(report)[:600]}")
    dropped = {entry["tensor"] for entry in report.get("dropped", [])}
    found, idle = oracle_dirs.matching(names, check.get("drops", []))
    wrong = sorted(dropped ^ found)
    tool.expect(not wrong and not idle, f"{what}: dropped are {wrong[:5]} too many or too few; idle: {idle}")
    unused = [entry for entry in report.get("dropped", []) if not entry["rule"] or not entry["why"]]
    tool.expect(not unused, f"{what}: {unused[:3]} have no rule or no reason")


def check_refused(tool, folder, check, what):
    """Checks that hfshard refuses it with a sentence: an error, or a problem of a rule."""
    status, report = report_of(tool, folder, check["words"], what)
    said = json.dumps(report.get("error") or report.get("problems") or "")
    tool.expect(status == 3 and check["refused"] in said, f"{what}: ends with {status}, says {said[:400]}")


def check_damage(tool, folder, config, names, check, what):
    """Checks that hfshard names a missing, misspelled or new name."""
    dropped = oracle_dirs.matching(names, check.get("drops", []))[0]
    kept = [name for name in sorted(names) if name not in dropped]
    victim = kept[len(kept) // 2]
    typo = victim[:-1] + ("x" if victim[-1] != "x" else "y")
    new = "model.layers.0.no_such.weight"
    for label, changed, named in (("missing", [n for n in names if n != victim], (victim,)),
                                  ("misspelt", [n if n != victim else typo for n in names], (victim, typo)),
                                  ("new", [*names, new], (new,))):
        write_checkpoint(folder, config, changed)
        status, report = report_of(tool, folder, check["words"], f"{what}, {label}")
        said = json.dumps(report.get("error") or report.get("problems") or "")
        tool.expect(status == 3 and all(name in said for name in named),
                    f"{what}: {named} {label}: ends with {status}, says {said[:400]}")


def check_model(tool, name):
    facts = oracle_dirs.read_json(HUB, f"{name}.json")
    names = folded_names.unfold(facts["names"])
    tool.expect(digest(names) == facts["names_sha256"], f"{name}: names are not intact")
    tool.expect(len(names) == len(set(names)), f"{name}: a name comes twice")
    tool.expect(folded_names.fold(names) == facts["names"], f"{name}: names are folded in another way")
    folder = tool.path(name)
    for check in facts["checks"]:
        write_checkpoint(folder, facts["config"], names)
        what = f"{name} {' '.join(check['words'])}".rstrip()
        if "refused" in check:
            check_refused(tool, folder, check, what)
        else:
            check_taken(tool, folder, names, check, what)
    first = facts["checks"][0]
    if "refused" not in first:
        check_damage(tool, folder, facts["config"], names, first, name)


def print_folded(folder):
    config = oracle_dirs.read_json(folder, "config.json")
    names = list(oracle_dirs.read_json(folder, "model.safetensors.index.json")["weight_map"])
    facts = {"source": "", "config": config, "names_sha256": digest(names), "checks": [],
             "names": folded_names.fold(names)}
    print(folded_text(facts), end="")


def folded_text(facts):
    """Returns one line for each name and each check."""
    lines = []
    for key, value in facts.items():
        if key in ("names", "checks"):
            items = ",\n".join(json.dumps(item) for item in value)
            lines.append(f"{json.dumps(key)}: [\n{items}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", help="the program")
    parser.add_argument("--fold", metavar="DIR", help="print the file for a directory and stop")
    parser.add_argument("models", nargs="*", help="just these files of tests/oracle/hub")
    arguments = parser.parse_args()
    if arguments.fold:
        print_folded(arguments.fold)
        return 0
    models = arguments.models or [name.removesuffix(".json") for name in sorted(os.listdir(HUB)) if name.endswith(".json")]
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        tool.expect(models, "tests/oracle/hub has no model")
        for name in models:
            check_model(tool, name)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
