#!/usr/bin/env python3
"""Writes the oracle directories that no other converter made: checkpoints and the trees that MaxText expects for them.

Everything is computed with numpy and ml_dtypes from the facts in MaxText's own scripts and mapping functions (cited
in numpy_oracles/*.py). Nothing here reads hfshard's tables. `--check` compares with the existing files, and doesn't
write.
"""

import argparse
import filecmp
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SKIP_STATUS = 77


def use_peer_python():
    """Starts over under HFSHARD_PEER_PYTHON, the interpreter with the peers, if that is another one."""
    wanted = os.environ.pop("HFSHARD_PEER_PYTHON", "")
    if wanted and wanted != sys.executable and os.access(wanted, os.X_OK):
        os.execv(wanted, [wanted, *sys.argv])


def makers():
    """Returns every function that makes a checkpoint."""
    from numpy_oracles import deepseek, deepseek_v4, dense, gemma, gpt_oss, llama4, olmo, phi, qwen, qwen_towers

    modules = (dense, olmo, phi, llama4, gemma, gpt_oss, deepseek, deepseek_v4, qwen, qwen_towers)
    return [maker for module in modules for maker in module.MAKERS]


def differing(made, kept):
    """Returns the names of files that differ in the two folders."""
    names = sorted(set(os.listdir(made)) | (set(os.listdir(kept)) if os.path.isdir(kept) else set()))
    return [name for name in names if not os.path.exists(os.path.join(made, name))
            or not os.path.exists(os.path.join(kept, name))
            or not filecmp.cmp(os.path.join(made, name), os.path.join(kept, name), shallow=False)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    parser.add_argument("names", nargs="*", help="just these directories")
    arguments = parser.parse_args()
    use_peer_python()
    try:
        from numpy_oracles.common import write_oracle
    except ImportError as error:
        print(f"PEER MISSING {error}")
        return SKIP_STATUS
    bad = 0
    with tempfile.TemporaryDirectory(prefix="hfshard-oracles-") as temporary:
        for maker in makers():
            checkpoint, facts = maker()
            if arguments.names and checkpoint.name not in arguments.names:
                continue
            folder = os.path.join(temporary if arguments.check else HERE, checkpoint.name)
            write_oracle(folder, checkpoint, **facts)
            wrong = differing(folder, os.path.join(HERE, checkpoint.name))
            bad += bool(wrong)
            print(f"{'FAIL' if wrong else 'ok  '} {checkpoint.name} {' '.join(wrong)}".rstrip())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
