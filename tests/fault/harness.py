"""The fault tests share this: a checkpoint to convert, conversions to interrupt, and trees to compare."""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time

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


class Instants:
    """Random instants within a command that takes about `seconds`. They follow a machine that becomes slower or faster."""

    def __init__(self, fault, seconds, begin=0.0, end=1.0):
        self._random, self._seconds, self._begin, self._end = fault.random, seconds, begin, end

    def sleep(self):
        time.sleep(self._random.uniform(self._begin, self._end) * self._seconds)

    def was_late(self):
        """The command had already ended."""
        self._seconds *= 0.8

    def was_early(self):
        """The command had not done any work yet."""
        self._seconds *= 1.2


class Fault:
    """One test run: a temporary folder with a source in it, and the program under test."""

    def __init__(self, description, config=None):
        testing.clean_own()
        self.config = config or CONFIG
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--hfshard", required=True, help="the program, or the test tool with the same commands")
        parser.add_argument("--limits", help="passed to convert as --limits; only the test tool has that option")
        parser.add_argument("--option", action="append", default=[], metavar="WORD",
                            help="passed to every convert, as in --option=--compress=zstd; may be repeated")
        parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
        parser.add_argument("--rounds", type=int, default=20)
        self.arguments = parser.parse_args()
        self.random = random.Random(self.arguments.seed)
        self.folder = None
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
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, start_new_session=True, **options)

    def reference(self):
        """Converts without interruption, twice. Returns the tree, and the shorter of the two times."""
        seconds = []
        for name in ("reference", "again"):
            started = time.monotonic()
            self.check(subprocess.run(self.convert(name), capture_output=True, text=True, check=False))
            seconds.append(time.monotonic() - started)
        tree = self.tree("reference")
        self.expect(tree, "a conversion ended with status 0 and left no output")
        self.expect(self.tree("again") == tree, "two conversions of one source differ")
        return tree, min(seconds)

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
