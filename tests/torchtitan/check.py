#!/usr/bin/env python3
"""Checks checkpoints with torchtitan's names. Every tensor equals the result of torchtitan's own adapter for the same
files, and back.

Each directory next to this file has a small model. Its expected.json has shape, dtype and SHA-256 of every parameter
and buffer of torchtitan's model (PROVENANCE.md). The test converts each to safetensors, a file that a few lines here
read without any peer. Then it converts back, by the record next to it and by --config alone. It needs no peer.
tests/interop/torchtitan.py does the same with torch.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "interop"))
import interop  # noqa: E402
NUMPY = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
# Copies of the embedding and the head, which torchtitan never reads.
SHARED = ("model.layers.3.embed_tokens.weight", "model.layers.3.shared_head.head.weight")
# Made by lines of our own (make_wide.py), not by torchtitan's adapter.
OWN = ("gpt_oss_wide",)
CODES = ("F8_E4M3", "U8")


def cases():
    return sorted(name for name in os.listdir(HERE) if os.path.exists(os.path.join(HERE, name, "expected.json")))


def expected_of(case):
    with open(os.path.join(HERE, case, "expected.json"), encoding="utf-8") as file:
        return json.load(file)


def expect_leaves(tool, found, expected):
    """Checks that a peer found the leaves of each checkpoint ({"path": {"leaf": facts}}), without an error."""
    for out, leaves in expected.items():
        what = os.path.basename(out)
        if not isinstance(found[out], dict):
            tool.expect(False, f"{what}: {found[out]}")
            continue
        for leaf, facts in leaves.items():
            seen, wanted = found[out].get(leaf), {key: facts[key] for key in ("dtype", "shape", "sha256")}
            tool.expect(seen == wanted, f"{what}: {leaf} is {seen}, not {wanted}")


def options_of(case):
    """Returns the parts of torchtitan's model that must be requested."""
    path = os.path.join(HERE, case, "options.json")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [word for name, value in json.load(file).items() for word in ("--option", f"{name}={value}")]


def words_of(case):
    """Returns options of `convert` for the result of the adapter, which decodes FP8 as float32."""
    if not any(dtype == "F8_E4M3" for dtype, _, _ in interop.tensors_of(os.path.join(HERE, case)).values()):
        return options_of(case)
    wide = sorted(name for name, facts in expected_of(case).items() if facts["dtype"] == "float32")
    return [*options_of(case), *(word for name in wide for word in ("--cast", f"{name}=f32"))]


class Check:
    def __init__(self, program, folder):
        self.program, self.folder, self.failures = os.path.abspath(program), folder, 0

    def run(self, *words):
        done = subprocess.run([self.program, *words, "--quiet"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.fail(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done.returncode == 0

    def fail(self, sentence):
        self.failures += 1
        print("FAIL", sentence)

    def forward(self, case, out, *words):
        """Converts HF -> torchtitan, in a file that is read here."""
        if not self.run("convert", os.path.join(HERE, case), out, "--scheme", "torchtitan", "--to", "safetensors", *words):
            return
        found, expected = interop.tensors_of(out), expected_of(case)
        for name in sorted(set(found) ^ set(expected)):
            self.fail(f"{case}: {name} is {'not expected' if name in found else 'missing'}")
        for name in sorted(set(found) & set(expected)):
            dtype, shape, data = found[name]
            seen = {"shape": shape, "dtype": NUMPY.get(dtype, dtype), "sha256": hashlib.sha256(data).hexdigest()}
            wanted = {key: expected[name][key] for key in seen}
            if seen != wanted:
                self.fail(f"{case}: {name} is {seen}, the adapter makes {wanted}")

    def back(self, case, tree, out, *words):
        """Converts torchtitan -> HF. The tensors are those of the source, except that former codes come back as
        numbers."""
        if not self.run("convert", tree, out, "--to", "safetensors", "--scheme", "hf", *words):
            return
        source, found = interop.tensors_of(os.path.join(HERE, case)), interop.tensors_of(out)
        source = {name: facts for name, facts in source.items() if name not in SHARED}
        if any(dtype in CODES for dtype, _, _ in source.values()):
            source = {name: facts for name, facts in source.items() if facts[0] not in CODES and not name.endswith("_scale_inv")}
            found = {name: facts for name, facts in found.items() if name in source}
        for name in sorted(set(source) | set(found)):
            if source.get(name) != found.get(name):
                self.fail(f"{case}: {name} does not come back")

    def compare(self, case, tree):
        """Checks that `diff` knows the names of a checkpoint without a record. FP8 was decoded as dtypes other than
        the expected one."""
        done = subprocess.run([self.program, "diff", tree, os.path.join(HERE, case), "--json", "--dtype-aware"], capture_output=True,
                              text=True, check=False)
        report = json.loads(done.stdout)
        if not options_of(case) and (done.returncode != 0 or report["compared_tensors"] < 10):
            self.fail(f"{case}: diff ends with {done.returncode}: {done.stdout[:500]}")

    def case(self, case):
        words = words_of(case)
        path = os.path.join(self.folder, case)
        self.forward(case, path + "-names", *words)
        if not self.run("convert", os.path.join(HERE, case), path + "-dcp", "--scheme", "torchtitan", "--to", "dcp", *words):
            return
        self.back(case, path + "-dcp", path + "-back")
        if self.run("reshard", path + "-dcp", path + "-again"):
            self.back(case, path + "-again", path + "-again-back")
        os.remove(os.path.join(path + "-dcp", "hfshard.json"))  # as torchtitan would have written it
        os.remove(os.path.join(path + "-dcp", "config.json"))
        if case.endswith("transposed"):  # a config can't state the orientation of experts
            return
        self.back(case, path + "-dcp", path + "-config", "--config", os.path.join(HERE, case), *options_of(case))
        with open(os.path.join(path + "-config", "config.json"), encoding="utf-8") as file:
            if "quantization_config" in file.read():
                self.fail(f"{case}: config.json speaks of codes that are none any more")
        self.compare(case, path + "-dcp")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="hfshard-torchtitan-")
    try:
        check = Check(arguments.hfshard, folder)
        names = arguments.cases or cases()
        for name in names:
            check.case(name)
        print(f"{len(names)} checkpoints, {check.failures} failures")
        return 1 if check.failures else 0
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
