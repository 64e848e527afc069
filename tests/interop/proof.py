#!/usr/bin/env python3
"""Proves how far each family is right. Makes mappings/proof.json, which `mappings list` prints, or checks it.

    proof.py --hfshard PROGRAM [--update]

accounted   sizes of the family that `mappings check --all` accounts for in every layout
executed    directories of tests/oracle and tests/torchtitan that convert, and that `verify` finds equal to their source, in every layout
right_by_*  those that are bit-equal to expected.json, read by real TensorStore: made by MaxText's own converter, by
            tests/oracle/make_numpy_oracles.py, or by torchtitan's own adapter
"""

import argparse
import collections
import json
import os
import sys
import tempfile

import interop
import oracle_dirs

sys.path.insert(0, os.path.join(interop.HERE, os.pardir, "torchtitan"))
import check as torchtitan  # pylint: disable=wrong-import-position

PROOF = os.path.join(os.path.dirname(interop.ORACLE), os.pardir, "mappings", "proof.json")


def accounted(tool):
    """Returns family -> sizes without a problem in any of their checks."""
    good, bad = collections.defaultdict(set), collections.defaultdict(set)
    for check in tool.json("mappings", "check", "--all")["checks"]:
        (bad if check["problems"] else good)[check["family"]].add(check["config"])
    return {family: len(sizes - bad[family] - {"example"}) for family, sizes in good.items()}


def is_right(tool, oracle, layers):
    """Converts, verifies and compares. Returns (executed, right)."""
    import orbax_peer as peer

    output = tool.path(f"{oracle.name}-{layers}")
    tool.run("convert", oracle.path, output, "--quiet", "--layers", layers, *oracle.words())
    tool.run("verify", output, oracle.path, "--quiet")
    item = peer.item_path(output)
    found = {}
    for name in peer.array_names(item):
        leaf = peer.leaf_of(name)
        if leaf is not None:
            found[leaf] = peer.describe(peer.open_array(item, name).read().result())
    return found == oracle.kept(layers)


def measure(tool):
    out = {family: {"accounted": count, "executed": 0, "right_by_maxtext": 0, "right_by_own_oracle": 0, "right_by_torchtitan": 0}
           for family, count in sorted(accounted(tool).items())}
    for name in oracle_dirs.oracle_names():
        oracle = oracle_dirs.OracleDir(name)
        family = tool.json("mappings", "check", oracle.path, "--layers", oracle.layouts()[0], *oracle.words())["family"]
        right = all([is_right(tool, oracle, layers) for layers in oracle.layouts()])
        out[family]["executed"] += 1
        kind = "right_by_maxtext" if oracle.facts.get("maxtext_model_name") else "right_by_own_oracle"
        out[family][kind] += right
        print(f"{name}: {family}, {'right' if right else 'differs'}, {kind.removeprefix('right_')}", flush=True)
    for case in torchtitan.cases():
        source, output = os.path.join(torchtitan.HERE, case), tool.path(f"torchtitan-{case}")
        check = torchtitan.Check(tool.program, tool.folder)
        check.forward(case, output, *torchtitan.words_of(case))
        tool.run("verify", output, source, "--quiet")
        family = tool.json("plan", source, "--scheme", "torchtitan", "--to", "safetensors", *torchtitan.words_of(case))["family"]
        out[family]["executed"] += 1
        out[family]["right_by_own_oracle" if case in torchtitan.OWN else "right_by_torchtitan"] += check.failures == 0
        print(f"torchtitan/{case}: {family}, {'differs' if check.failures else 'right'}", flush=True)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--update", action="store_true", help="writes mappings/proof.json")
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers()
    with tempfile.TemporaryDirectory(prefix="hfshard-proof-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        rows = [f"  {json.dumps(family)}: {json.dumps(facts)}" for family, facts in sorted(measure(tool).items())]
        text = "{\n" + ",\n".join(rows) + "\n}\n"
        if arguments.update:
            with open(PROOF, "w", encoding="utf-8") as file:
                file.write(text)
            return 0
        with open(PROOF, encoding="utf-8") as file:
            tool.expect(file.read() == text, f"mappings/proof.json differs from this (proof.py --update):\n{text}")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
