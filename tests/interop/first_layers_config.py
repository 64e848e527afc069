#!/usr/bin/env python3
"""Checks that transformers reads the config.json that --num-layers makes.

    first_layers_config.py --hfshard PROGRAM

If transformers reads the config.json of a checkpoint of tests/oracle, it must also read the output's, for each N. It
must find N layers and a kind for each. HFSHARD_MAXTEXT_PYTHON names a Python with transformers (scripts/test
--with-maxtext).
"""

import argparse
import os
import shutil
import sys
import tempfile

import interop
import oracle_dirs


def depth(config):
    """Returns the number of layers of the decoder, after a check of their kinds."""
    text = config.get_text_config()
    text = getattr(text, "thinker_config", text)
    text = getattr(text, "text_config", text)
    types = getattr(text, "layer_types", None)
    return text.num_hidden_layers if not types or len(types) == text.num_hidden_layers else f"{len(types)} kinds of {text.num_hidden_layers} layers"


def check(tool, transformers, name):
    oracle = oracle_dirs.OracleDir(name)
    try:
        whole = depth(transformers.AutoConfig.from_pretrained(oracle.path))
    except Exception as error:  # pylint: disable=broad-except
        print(f"{name}: transformers does not read it: {str(error)[:80]!r}")
        return 0
    words = [*oracle.words(), "--layers", oracle.layouts()[0]]
    seen = 0
    for count in range(1, whole):
        shutil.rmtree(tool.path("out"), ignore_errors=True)
        done = tool.run_any("convert", oracle.path, tool.path("out"), "--quiet", *words, "--num-layers", str(count))
        if done.returncode != 0:
            tool.expect("doesn't fit the pattern" in done.stderr, f"{name} --num-layers {count}: {done.stderr}")
            continue
        seen += 1
        try:
            found = depth(transformers.AutoConfig.from_pretrained(tool.path("out", "hf")))
        except Exception as error:  # pylint: disable=broad-except
            found = f"{type(error).__name__}: {error}"
        tool.expect(found == count, f"{name} --num-layers {count}: {found}")
    return seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    arguments = parser.parse_args()
    os.environ["HFSHARD_PEER_PYTHON"] = os.environ.get("HFSHARD_MAXTEXT_PYTHON", "")
    os.environ["HF_HUB_OFFLINE"] = "1"
    interop.use_peer_python()
    try:
        import transformers
    except ImportError:
        print("PEER MISSING transformers: HFSHARD_MAXTEXT_PYTHON (scripts/test --with-maxtext)")
        return interop.SKIP_STATUS
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        seen = sum(check(tool, transformers, name) for name in oracle_dirs.oracle_names())
        tool.expect(seen > 100, f"only {seen} configs were read")
        print(f"{seen} configs")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
