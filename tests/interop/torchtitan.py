#!/usr/bin/env python3
"""Real torch.distributed.checkpoint loads what --scheme torchtitan writes: the tensors of torchtitan's model, bit for bit.

Every directory of tests/torchtitan is written as a DCP, in one piece and cut for meshes, with several data files. The state dict that
is loaded has the names and shapes of torchtitan's own model, zero buffers among them; dcp.load refuses what misses one.
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

# Pieces of a kilobyte: torch opens a file for each, so that those of 64 bytes take it most of a minute.
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
