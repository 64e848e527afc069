#!/usr/bin/env python3
"""maxtext_models.py SRC [--check]: writes the facts about MaxText's models in mappings/loaders.json, from SRC/maxtext/configs.

SRC is the `src` folder of a clone of AI-Hypercomputer/maxtext. MaxText itself must be importable from there. The settings are those
that the mappings use. The models are those that match one of their `model_names`. --check only prints what would change.
"""

import argparse
import fnmatch
import json
import os
import sys
import typing

MAPPINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "mappings")
TARGET = os.path.join(MAPPINGS, "loaders.json")
SCHEME = "maxtext"
LAYOUT = "scan_layers"
COLUMNS = 158


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def of_mappings():
    """Returns the settings that families use, and the globs of their names."""
    settings, globs = {LAYOUT}, set()
    for file in sorted(name for name in os.listdir(MAPPINGS) if name.endswith(".json")):
        content = read_json(os.path.join(MAPPINGS, file))
        blocks = content.get("parts", {}).values() if file == "common.json" else [content]
        for block in blocks:
            scheme = block.get("schemes", {}).get(SCHEME, {})
            settings |= set(scheme.get("settings", {}))
            globs |= {glob for glob, condition in scheme.get("model_names", []) if condition not in ("false", False)}
    return settings, globs


def plain(value):
    from omegaconf import OmegaConf

    return OmegaConf.to_container(OmegaConf.create({"value": value}), resolve=True)["value"]


def takes_whole_numbers(annotation):
    """Returns True for int, or int with None. bool and float don't count."""
    kinds = {kind for kind in typing.get_args(annotation) if kind is not type(None)} or {annotation}
    if annotation is not bool and hasattr(annotation, "__metadata__"):
        kinds = {annotation.__origin__}
    return kinds == {int}


def facts(src):
    from maxtext.configs import types
    from omegaconf import OmegaConf

    settings, globs = of_mappings()
    fields = types.MaxTextConfig.model_fields
    unknown = sorted(settings - set(fields))
    if unknown:
        sys.exit(f"maxtext_models: MaxText has no settings {', '.join(unknown)}")
    configs = os.path.join(src, "maxtext", "configs")
    base = OmegaConf.load(os.path.join(configs, "base.yml"))
    models = {}
    for name in sorted(typing.get_args(types.ModelName)):
        if not any(fnmatch.fnmatchcase(name, glob) for glob in globs):
            continue
        architecture = name.replace("-Instruct", "")  # like pyconfig.py
        if architecture != name:
            models[name] = architecture
            continue
        path = os.path.join(configs, "models", f"{name}.yml")
        if os.path.exists(path):
            own = OmegaConf.load(path)
            models[name] = {key: plain(own[key]) for key in sorted(settings) if key in own}
    return {
        "source": "AI-Hypercomputer/maxtext e591f30c src/maxtext/configs (scripts/maxtext_models.py)",
        "defaults": {key: plain(base[key]) for key in sorted(settings) if key in base},
        "whole_numbers": sorted(key for key in settings if takes_whole_numbers(fields[key].annotation)),
        "models": models}


def wrapped(items, indent, closing):
    """Returns lines of items, with as many in each as fit."""
    lines, line = [], " " * indent
    for number, item in enumerate(items):
        item += ", " if number + 1 < len(items) else closing
        if len(line) + len(item.rstrip()) > COLUMNS and line.strip():
            lines.append(line.rstrip())
            line = " " * indent
        line += item
    return "\n".join([*lines, line.rstrip()])


def object_text(values, indent):
    items = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items()]
    one = "{" + ", ".join(items) + "}"
    return one if len(one) + indent + 20 <= COLUMNS else "{\n" + wrapped(items, indent, "}")


def text_of(loaders):
    out = []
    for scheme, entry in loaders.items():
        members = [f'  "source": {json.dumps(entry["source"])}']
        if "defaults" in entry:
            members.append(f'  "defaults": {object_text(entry["defaults"], 3)}')
        if "whole_numbers" in entry:
            members.append('  "whole_numbers": [\n' + wrapped([json.dumps(name) for name in entry["whole_numbers"]], 3, "]"))
        models = [f"   {json.dumps(name)}: {json.dumps(model) if isinstance(model, str) else object_text(model, 4)}"
                  for name, model in entry["models"].items()]
        members.append('  "models": {\n' + ",\n".join(models) + "}")
        out.append(f" {json.dumps(scheme)}: {{\n" + ",\n".join(members) + "}")
    return "{\n" + ",\n".join(out) + "\n}\n"


def write(scheme, entry, check, script):
    """Writes a scheme's entry into loaders.json. Returns the exit status."""
    loaders = read_json(TARGET) if os.path.exists(TARGET) else {}
    changed = {**loaders, scheme: entry}
    if check:
        same = loaders == changed
        print(f"mappings/loaders.json is as {scheme}'s files" if same else f"mappings/loaders.json: run scripts/{script}")
        return 0 if same else 1
    with open(TARGET, "w", encoding="ascii") as file:
        file.write(text_of(dict(sorted(changed.items()))))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("src", help="the src folder of a clone of MaxText")
    parser.add_argument("--check", action="store_true", help="writes nothing; ends with 1 if the file is not what it would be")
    arguments = parser.parse_args()
    sys.path.insert(0, arguments.src)
    return write(SCHEME, facts(arguments.src), arguments.check, "maxtext_models.py")


if __name__ == "__main__":
    sys.exit(main())
