#!/usr/bin/env python3
"""Checks that transformers loads the output of `--to safetensors`: the same state, bit for bit, and the source's
logits.

Small checkpoints of tests/oracle are written again in several files. Torch's safe_open also reads each tensor. The
Python with torch and transformers is HFSHARD_MAXTEXT_PYTHON (scripts/test --with-maxtext).
"""

import argparse
import importlib
import os
import sys
import tempfile

import interop
import oracle_dirs

FIXTURES = ("qwen3", "llama3.1", "mixtral", "gpt-oss")


def use_transformers():
    """Starts over under the Python with transformers. Ends the test without one."""
    python = os.environ.get("HFSHARD_MAXTEXT_PYTHON", "")
    if not python:
        print("PEER MISSING transformers: HFSHARD_MAXTEXT_PYTHON")
        sys.exit(interop.SKIP_STATUS)
    os.environ["HFSHARD_PEER_PYTHON"] = python
    interop.use_peer_python()
    for name in ("torch", "transformers", "safetensors"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"PEER MISSING {name}: {error}")
            sys.exit(interop.SKIP_STATUS)


def load(directory):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype="auto",
                                                              experts_implementation="eager").eval()
    tokens = torch.arange(8).reshape(1, 8)
    with torch.no_grad():
        return model.state_dict(), model(tokens).logits


def stored(directory):
    """Returns every tensor by torch's safe_open."""
    from safetensors import safe_open

    out = {}
    for name in sorted(os.listdir(directory)):
        if name.endswith(".safetensors"):
            with safe_open(os.path.join(directory, name), framework="pt") as opened:
                out.update({key: opened.get_tensor(key) for key in opened.keys()})
    return out


def same(one, other):
    import torch

    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(
        one.contiguous().reshape(-1).view(torch.uint8), other.contiguous().reshape(-1).view(torch.uint8))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    arguments = parser.parse_args()
    use_transformers()
    with tempfile.TemporaryDirectory(prefix="hfshard-transformers-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        for name in FIXTURES:
            source = os.path.join(interop.ORACLE, name)
            if not os.path.isdir(source):
                continue
            out = tool.path(name)
            size = sum(os.path.getsize(os.path.join(source, each)) for each in os.listdir(source)
                       if each.endswith(".safetensors"))
            tool.run("convert", source, out, "--to", "safetensors", "--shard-bytes", str(size // 3), "--quiet")
            files = [each for each in os.listdir(out) if each.endswith(".safetensors")]
            tool.expect(len(files) > 2, f"{name}: {files}")
            wanted, found = stored(source), stored(out)
            tool.expect(sorted(wanted) == sorted(found), f"{name}: other names")
            for key, value in wanted.items():
                tool.expect(key in found and same(value, found[key]), f"{name}: {key} differs")
            state, logits = load(source)
            other_state, other_logits = load(out)
            tool.expect(sorted(state) == sorted(other_state), f"{name}: other names in the model")
            for key, value in state.items():
                tool.expect(same(value, other_state[key]), f"{name}: {key} differs in the model")
            tool.expect(same(logits, other_logits), f"{name}: other logits")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
