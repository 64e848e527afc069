"""Reads the directories of tests/oracle: their expected trees, and the deliberate differences (differences.json)."""

import fnmatch
import json
import os

import interop

LAYOUTS = {"stacked": "scanned", "separate": "unscanned"}
DIFFERENCES = os.path.join(interop.ORACLE, "differences.json")


def read_json(*names):
    with open(os.path.join(*names), encoding="utf-8") as file:
        return json.load(file)


class OracleDir:
    """One checkpoint and the trees that it becomes: config.json, safetensors, expected.json, options.json."""

    def __init__(self, name):
        self.name = name
        self.path = os.path.join(interop.ORACLE, name)
        self.facts = read_json(self.path, "expected.json")
        options = os.path.join(self.path, "options.json")
        self.options = read_json(options) if os.path.exists(options) else {}

    @property
    def keeps_codes(self):
        """Returns whether the tree has codes and scales, so that no other dtype can be requested."""
        return self.options.get("codes") == "kept"

    def words(self):
        """Returns the options for the expected trees, as arguments of the command line."""
        return words_of(self.options)

    def layouts(self):
        return [layers for layers, key in LAYOUTS.items() if self.facts[key]]

    def tree(self, layers):
        """Returns leaf -> shape, dtype, sha256 and, if they exist, eager_bf16, eager_f32, as_shipped."""
        return self.facts[LAYOUTS[layers]]

    def kept(self, layers):
        """Returns the tree with the source's own dtypes."""
        return {leaf: {k: facts[k] for k in ("shape", "dtype", "sha256")} for leaf, facts in self.tree(layers).items()}

    def as_bf16(self, layers):
        """Returns the tree with --dtype bf16: MaxText's eager mode, except for leaves that stay as stored."""
        out = self.kept(layers)
        stays = self.stays(layers)
        for leaf, facts in self.tree(layers).items():
            if leaf not in stays:
                out[leaf].update(facts.get("eager_bf16", {}))
        return out

    def stays(self, layers):
        """Returns leaves that MaxText's eager mode would round and hfshard doesn't."""
        rounded = [leaf for leaf, facts in self.tree(layers).items() if "eager_bf16" in facts]
        return matching(rounded, [glob for entry in self.differences() for glob in entry.get("stays", [])])[0]

    def differences(self):
        return [entry for entry in read_json(DIFFERENCES) if self.name in entry["oracles"]]

    def eager_f32(self, layers):
        """Returns leaf -> hash with --dtype f32, if it isn't the widened leaf."""
        out = {leaf: facts["eager_f32"] for leaf, facts in self.tree(layers).items() if "eager_f32" in facts}
        for entry in self.differences():
            out.update(entry.get("eager_f32", {}))
        return out

    def undeclared(self):
        """Returns leaves with an undeclared difference from MaxText's own code."""
        declared = [glob for entry in self.differences() for glob in entry.get("as_shipped", [])]
        shipped = [leaf for layers in self.layouts() for leaf, facts in self.tree(layers).items()
                   if "as_shipped" in facts]
        return sorted(set(shipped) - matching(shipped, declared)[0])


def undocumented():
    """Returns ids that are in only one of differences.json and DIFFERENCES.md."""
    with open(os.path.join(interop.ORACLE, "DIFFERENCES.md"), encoding="ascii") as file:
        written = {line[3:].strip() for line in file if line.startswith("## ")}
    return sorted(written ^ {entry["id"] for entry in read_json(DIFFERENCES)})


def keeps_codes(name):
    """Returns whether a directory of this name has an oracle of codes that are kept."""
    path = os.path.join(interop.ORACLE, name, "options.json")
    return os.path.exists(path) and read_json(path).get("codes") == "kept"


def words_of(options):
    """Returns --option vision=true --option vocab=56 for {"vision": "true", "vocab": "56"}. --dtype keep makes kept
    codes."""
    keep = ["--dtype", "keep"] if options.get("codes") == "kept" else []
    options = {name: value for name, value in options.items() if name != "codes"}
    return keep + [word for name, value in options.items() for word in ("--option", f"{name}={value}")]


def matching(leaves, patterns):
    """Returns the names that one of the globs matches, and the globs without a match."""
    found = {leaf for leaf in leaves for pattern in patterns if fnmatch.fnmatchcase(leaf, pattern)}
    idle = [pattern for pattern in patterns if not fnmatch.filter(leaves, pattern)]
    return found, idle


def oracle_names():
    """Returns every directory with an expected.json."""
    return sorted(name for name in os.listdir(interop.ORACLE)
                  if os.path.exists(os.path.join(interop.ORACLE, name, "expected.json")))
