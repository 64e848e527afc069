"""The fault tests share this: a checkpoint to convert, conversions to interrupt, and trees to compare.

The program under test is the test tool (tests/testtool.cpp). It stops or ends at a system call with a number, so a
seed tests the same points each time.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))

import testing  # noqa: E402  (a module of tests/support)

# Large enough that a conversion takes a while, small enough for a test. About 90 MB.
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 16384,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


SEED = 1


def add_seed(parser):
    """Adds --seed. The default tests the same points each time."""
    parser.add_argument("--seed", type=seed_of, default=SEED, help="a number, or `random` to draw a new one")


def seed_of(text):
    return int.from_bytes(os.urandom(4), "little") if text == "random" else int(text)


class Fault:
    """One test run: a temporary folder with a source in it, and the program under test."""

    def __init__(self, description, config=None):
        testing.clean_own()
        self.config = config or CONFIG
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--hfshard", required=True, help="the program or the test tool; points in a run need the test tool")
        parser.add_argument("--limits", help="passed to convert as --limits; only the test tool has that option")
        parser.add_argument("--option", action="append", default=[], metavar="WORD",
                            help="passed to every convert, as in --option=--compress=zstd; may be repeated")
        add_seed(parser)
        parser.add_argument("--rounds", type=int, default=20)
        self.arguments = parser.parse_args()
        self.random = random.Random(self.arguments.seed)
        self.folder = None
        self._started = []
        print(f"seed {self.arguments.seed}", flush=True)

    def __enter__(self):
        self._temporary = tempfile.TemporaryDirectory(prefix="hfshard-fault-")
        self.folder = self._temporary.name
        config = self.path("config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(self.config, file)
        self.run("mappings", "example", "qwen3", self.path("source"), "--config", config)
        return self

    def __exit__(self, *_):
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()
        self._temporary.cleanup()

    def path(self, name):
        return os.path.join(self.folder, name)

    def staging(self, name):
        """Returns where an interrupted conversion to `name` leaves its work."""
        return self.path(f".{name}.hfshard")

    def command(self, *words):
        return [os.path.abspath(self.arguments.hfshard), *words]

    def convert(self, name, *options):
        """Returns the command that converts the source to `name`."""
        limits = ["--limits", self.arguments.limits] if self.arguments.limits else []
        return self.command("convert", self.path("source"), self.path(name), "--mesh", "fsdp=4", "--quiet", *limits,
                            *self.arguments.option, *options)

    def run(self, *words):
        return self.check(subprocess.run(self.command(*words), capture_output=True, text=True, check=False))

    def check(self, done, status=0):
        """Fails the test unless a finished command has this exit status."""
        if done.returncode != status:
            print(f"{' '.join(done.args)}\nended with {done.returncode}, expected {status}\n{done.stdout}{done.stderr}")
            sys.exit(1)
        return done

    def start(self, command, **options):
        """Starts a command in its own process group."""
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, start_new_session=True, **options)
        self._started.append(process)
        return process

    def start_until(self, command, call):
        """Starts a command and stops it before a system call: `N` or `CALL:N`, as --stop-at takes it. Returns the
        process, and whether it stopped. Otherwise it has ended."""
        process = self.start([*command, "--stop-at", str(call)])
        state = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return process, state.si_code == os.CLD_STOPPED

    def go_on(self, process):
        """Lets a stopped process run to its end. Returns what it printed on standard error."""
        process.send_signal(signal.SIGCONT)
        return process.communicate(timeout=testing.HANG_SECONDS)[1]

    def count_calls(self, *options):
        """Returns how many system calls of a conversion can change something. It is the same number each time."""
        count = self.path("count")
        command = self.convert("counted", *options, "--count-calls", count)
        self.check(subprocess.run(command, capture_output=True, text=True, check=False))
        shutil.rmtree(self.path("counted"))
        with open(count, encoding="ascii") as file:
            return int(file.readline())

    def reference(self):
        """Converts without interruption, twice. Returns the tree."""
        for name in ("reference", "again"):
            self.check(subprocess.run(self.convert(name), capture_output=True, text=True, check=False))
        tree = self.tree("reference")
        self.expect(tree, "a conversion ended with status 0 and left no output")
        self.expect(self.tree("again") == tree, "two conversions of one source differ")
        return tree

    def tree(self, name):
        """Returns relative path -> SHA-256 of every file (links too) below a folder, or None if it doesn't exist."""
        top = self.path(name)
        if not os.path.lexists(top):
            return None
        found = {}
        for folder, folders, files in os.walk(top):
            for entry in folders:
                found[os.path.relpath(os.path.join(folder, entry), top) + "/"] = ""
            for entry in files:
                full = os.path.join(folder, entry)
                state = hashlib.sha256()
                with open(full, "rb") as file:
                    while block := file.read(1 << 20):
                        state.update(block)
                found[os.path.relpath(full, top)] = state.hexdigest()
        return found

    def expect(self, condition, sentence):
        if not condition:
            print(f"FAIL: {sentence}")
            sys.exit(1)

    def expect_same(self, name, reference, when):
        """Checks that the tree equals the reference, and that no staging is left next to it."""
        seen = self.tree(name)
        self.expect(seen is not None, f"{when}: there is no output")
        differing = sorted(key for key in reference.keys() | seen.keys() if reference.get(key) != seen.get(key))
        self.expect(not differing, f"{when}: {len(differing)} files differ, the first is {differing[:1]}")
        self.expect(not os.path.lexists(self.staging(name)), f"{when}: the staging directory is still there")
