#!/usr/bin/env python3
"""Checks that torchtitan's own models load the output of --scheme torchtitan in cases that its converter can't handle.

The cases are Qwen3's experts, gpt-oss (MXFP4 and bf16) and Qwen3.5's experts, as in its files and transposed. The
test builds the model with the fixture's sizes and loads it. Then every tensor in it must equal the one in
expected.json, including zero buffers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import dcp_variants
import interop

sys.path.insert(0, os.path.join(interop.HERE, os.pardir, "torchtitan"))
import check as torchtitan  # noqa: E402

CASES = ("qwen3_moe", "gpt_oss", "gpt_oss_bf16", "gpt_oss_wide", "qwen3_5_moe", "qwen3_5_moe_transposed")


def native_python():
    python = dcp_variants.torch_python()
    done = subprocess.run([python, "-c", "import torchtitan.models.qwen3_5"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"PEER MISSING torchtitan: {done.stderr[-200:]}")
        sys.exit(interop.SKIP_STATUS)
    return python


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    python = native_python()
    with tempfile.TemporaryDirectory() as folder:
        tool = interop.Program(arguments.hfshard, folder)
        asked, expected = {}, {}
        for case in arguments.cases or CASES:
            source, out = os.path.join(torchtitan.HERE, case), tool.path(case)
            tool.run("convert", source, out, "--scheme", "torchtitan", "--to", "dcp", "--quiet", *torchtitan.words_of(case), "--mesh", "fsdp=2")
            asked[out], expected[out] = source, torchtitan.expected_of(case)
        done = subprocess.run([python, os.path.join(interop.HERE, "peers", "torchtitan_native.py")], input=json.dumps(asked),
                              capture_output=True, text=True, check=False)
        tool.expect(done.returncode == 0, done.stderr)
        found = json.loads(done.stdout)
        torchtitan.expect_leaves(tool, found, expected)
        for out, leaves in expected.items():
            extra = sorted(set(found[out]) - set(leaves)) if isinstance(found[out], dict) else []
            tool.expect(not extra, f"{os.path.basename(out)}: the model has {extra} too")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
