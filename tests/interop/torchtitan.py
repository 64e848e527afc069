#!/usr/bin/env python3
"""Checks that real torch.distributed.checkpoint loads the output of --scheme torchtitan: torchtitan's tensors, bit for
bit.

Every directory of tests/torchtitan is written as a DCP, in one piece and split for meshes, with several data files.
The loaded state dict has the names and shapes of torchtitan's own model, including zero buffers. dcp.load refuses a
checkpoint without one of them.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import dcp_variants
import interop

sys.path.insert(0, os.path.join(interop.HERE, os.pardir, "torchtitan"))
import check as torchtitan  # noqa: E402

# Pieces of a kilobyte, since torch opens a file for each. With 64 bytes, it takes most of a minute.
MESHES = {"whole": [], "rows": ["--mesh", "fsdp=3"],
          "both": ["--mesh", "fsdp=2,tensor=2", "--chunk-bytes", "1024", *interop.SHRUNKEN[2:]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    python = dcp_variants.torch_python()
    folder = tempfile.mkdtemp(prefix="hfshard-torchtitan-")
    try:
        tool = interop.Program(arguments.hfshard, folder)
        asked, expected = {}, {}
        for case in arguments.cases or torchtitan.cases():
            leaves = torchtitan.expected_of(case)
            for name, words in MESHES.items():
                out = tool.path(f"{case}-{name}")
                tool.run("convert", os.path.join(torchtitan.HERE, case), out, "--scheme", "torchtitan", "--to", "dcp", "--quiet",
                         *torchtitan.words_of(case), *words)
                asked[out] = {leaf: facts["shape"] for leaf, facts in leaves.items()}
                expected[out] = leaves
        done = subprocess.run([python, os.path.join(interop.HERE, "peers", "dcp_hashes.py")], input=json.dumps(asked), capture_output=True,
                              text=True, check=False)
        tool.expect(done.returncode == 0, done.stderr)
        found = json.loads(done.stdout)
        torchtitan.expect_leaves(tool, found, expected)
        return tool.verdict()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
