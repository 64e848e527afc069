"""Helps the tests with real TensorStore and Orbax: finds the peers, runs hfshard, damages files."""

import argparse
import glob
import importlib
import json
import logging
import os
import shutil
import subprocess
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ORACLE = os.path.join(HERE, os.pardir, "oracle")
sys.path.insert(0, os.path.join(HERE, os.pardir, "support"))

import testing  # noqa: E402  (a module of tests/support)

SKIP_STATUS = 77
PEERS = ("numpy", "jax", "tensorstore", "orbax.checkpoint")

# Sizes with which the fixtures, otherwise smaller than one chunk, have many chunks, tiles and files. Only the test tool
# has --limits.
SHRUNKEN = ["--chunk-bytes", "64", "--limits",
            "floor_bytes=64,file_min_bytes=8192,file_max_bytes=8192,merge_bytes=16384,segment_bytes=256,"
            "commit_bytes=8192,run_bytes=64,link_piece_bytes=1"]

# With larger files: a tree of a hundred arrays has fewer than the 1,024 files that some systems let a process open.
FEWER_FILES = [*SHRUNKEN[:3], SHRUNKEN[3].replace("=8192", "=65536")]


def use_peer_python():
    """Starts over under HFSHARD_PEER_PYTHON, the interpreter with the peers, if that is another one. Removes the
    settings of the machine."""
    testing.clean_own()
    wanted = os.environ.pop("HFSHARD_PEER_PYTHON", "")
    if wanted and wanted != sys.executable:
        if not os.access(wanted, os.X_OK):
            print(f"PEER MISSING {wanted}")
            sys.exit(SKIP_STATUS)
        os.execv(wanted, [wanted, *sys.argv])


# The release whose trees equal those of the clone for which the peers were written.
CLONE_RELEASE = "0.2.4"


def maxtext_release():
    """Returns the release of MaxText whose trees a test needs."""
    return os.environ.get("HFSHARD_MAXTEXT_RELEASE", CLONE_RELEASE)


def import_peers(*more):
    """Imports the peers, on 8 simulated devices. Exits with 77 if one is missing."""
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.path.insert(0, os.path.join(HERE, "peers"))
    for name in (*PEERS, *more):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"PEER MISSING {name}: {error}")
            sys.exit(SKIP_STATUS)
    import jax

    logging.getLogger("absl").setLevel(logging.ERROR)
    jax.config.update("jax_enable_x64", True)  # 64-bit leaves keep their type.


def tensors_of(folder):
    """Returns name -> dtype, shape, bytes of the files of a checkpoint."""
    out = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        with open(path, "rb") as file:
            data = file.read()
        begin = 8 + int.from_bytes(data[:8], "little")
        for name, facts in json.loads(data[8:begin]).items():
            if name != "__metadata__":
                first, end = facts["data_offsets"]
                out[name] = facts["dtype"], facts["shape"], data[begin + first:begin + end]
    return out


def import_dcp():
    """Starts over under HFSHARD_PEER_PYTHON, and returns torch.distributed.checkpoint. Without torch, the test is skipped."""
    use_peer_python()
    try:
        dcp = importlib.import_module("torch.distributed.checkpoint")
    except ImportError as error:
        print(f"PEER MISSING torch: {error}")
        sys.exit(SKIP_STATUS)
    warnings.simplefilter("ignore")
    return dcp


def load_dcp(path):
    """Loads the whole state of a DCP with torch, like dcp_to_torch_save."""
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
    from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

    state = {}
    _load_state_dict(state, storage_reader=FileSystemReader(path), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state


def start(doc):
    """Parses the arguments of a test that takes only --hfshard, and imports the peers. `doc`: of its module."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    arguments = parser.parse_args()
    use_peer_python()
    import_peers()
    return arguments


class Program:
    """hfshard, in one folder. Counts failures."""

    def __init__(self, program, folder):
        self.program = os.path.abspath(program)
        self.folder = folder
        self.failures = 0
        self.checks = 0

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_any(self, *words):
        """Runs a command that may end in any way."""
        return subprocess.run([self.program, *words], capture_output=True, text=True, check=False)

    def run(self, *words, status=0):
        """Runs a command. Any but the expected exit status ends the test."""
        done = self.run_any(*words)
        if done.returncode != status:
            print(f"FAIL {' '.join(words)}\nended with {done.returncode}, expected {status}\n{done.stdout}{done.stderr}")
            sys.exit(1)
        return done

    def json(self, *words, status=0):
        return json.loads(self.run(*words, "--json", status=status).stdout)

    def expect(self, condition, sentence):
        self.checks += 1
        if not condition:
            self.failures += 1
            print(f"FAIL {sentence}")

    def copy(self, name, to):
        """Makes a fresh copy of an output."""
        shutil.rmtree(self.path(to), ignore_errors=True)
        shutil.copytree(self.path(name), self.path(to))
        return self.path(to)

    def verdict(self):
        """Prints the sum and returns the exit status."""
        print(f"{self.checks - self.failures} of {self.checks} checks passed", flush=True)
        return 1 if self.failures or not self.checks else 0
