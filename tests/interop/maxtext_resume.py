#!/usr/bin/env python3
"""Checks that MaxText's own train.py resumes from a resharded run like from its own: equal losses and arrays, bit for bit.

A tiny model is trained on four CPU devices (fsdp=4), and saves steps 3 and 6. `reshard --items all` reshards step 3 for the same mesh
and for fsdp=2,tensor=2. Copies of the original step and the resharded ones are trained to step 6. On one mesh, the next three losses
are equal, and so are all arrays of step 6 and the iterator's state. Between the two meshes, the losses differ by at most 2^-8. Two runs
show that the losses would reveal an error: one without the iterator (no `--items all`), and one with zeros in place of the optimizer's
state. The test uses NNX and Linen modules, stacked and separate layers. `--all` prints the losses: the transcript of docs/proof.md.
HFSHARD_MAXTEXT_PYTHON and HFSHARD_MAXTEXT_SRC name MaxText (scripts/test --with-maxtext).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import interop

PEER = os.path.join(interop.HERE, "peers", "maxtext_train.py")
STEPS = ("4", "5", "6")
NEAR = 2.0 ** -8
ONE, OTHER = {"fsdp": 4}, {"fsdp": 2, "tensor": 2}


def words_of(mesh):
    return ",".join(f"{axis}={size}" for axis, size in mesh.items())


class Model:
    """One kind of model: the peer's steps in order, and the expected losses."""

    def __init__(self, tool, modules, scan):
        self.tool, self.modules, self.scan = tool, modules, scan
        self.name = f"{modules}, {'stacked' if scan else 'separate'}"
        self.tasks = []
        self.ran = []  # names of the runs that the peer answers

    def folder(self, name):
        return self.tool.path(f"{self.modules}-{self.scan}-{name}")

    def steps(self, name, *step):
        return os.path.join(self.folder(name), "run", "checkpoints", *step)

    def train(self, name, mesh):
        self.tasks.append({"folder": self.folder(name), "mesh": mesh, "scan": self.scan, "modules": self.modules, "steps": 7})
        self.ran.append(name)

    def resume(self, name, mesh, command):
        """Trains from step 3, which a command puts there."""
        os.makedirs(self.steps(name))
        self.tasks.append(command)
        self.train(name, mesh)

    def copied(self, name):
        return ["cp", "-r", self.steps("first", "3"), self.steps(name, "3")]

    def resharded(self, name, mesh, *more):
        return [self.tool.program, "reshard", os.path.join(self.folder("first"), "run"), self.steps(name), "--step", "3",
                "--mesh", words_of(mesh), "--quiet", *more]

    def plan(self, deep):
        """Plans the runs. `deep`: also the runs that must differ."""
        self.train("first", ONE)
        self.resume("original", ONE, self.copied("original"))
        self.resume("same", ONE, self.resharded("same", ONE, "--items", "all"))
        self.resume("turned", OTHER, self.resharded("turned", OTHER, "--items", "all"))
        self.resume("original-turned", OTHER, self.copied("original-turned"))
        if deep:
            self.resume("no-iterator", ONE, self.resharded("no-iterator", ONE))
            os.makedirs(self.steps("no-optimizer"))
            self.tasks += [self.copied("no-optimizer"), {"forget": self.steps("no-optimizer", "3")}]
            self.train("no-optimizer", ONE)

    def iterator(self, name):
        with open(self.steps(name, "6", "iter", "process_0-of-1.json"), encoding="utf-8") as file:
            return json.load(file)

    def compare(self, answers, show):
        runs = dict(zip(self.ran, answers, strict=True))
        losses = {name: run["losses"] for name, run in runs.items()}
        for name in self.ran[1:]:
            self.tool.expect(sorted(losses[name]) == list(STEPS), f"{self.name} {name}: trained {sorted(losses[name])}")
            self.tool.expect(any("directory step 3" in line for line in runs[name]["log"]), f"{self.name} {name}: {runs[name]['log']}")
        for one, other in (("first", "original"), ("original", "same"), ("original-turned", "turned")):
            differ = {step: (losses[one][step], losses[other][step]) for step in STEPS if losses[one].get(step) != losses[other].get(step)}
            self.tool.expect(not differ, f"{self.name}: the losses of {one} and {other} are {differ}")
            said = self.tool.json("diff", self.steps(one), self.steps(other), "--step", "6")
            self.tool.expect(said["equal"], f"{self.name}: step 6 of {one} and {other}: {str(said)[:600]}")
            self.tool.expect(self.iterator(one) == self.iterator(other), f"{self.name}: the iterators of {one} and {other} differ")
        far = {step: (losses["original"][step], losses["turned"][step]) for step in STEPS
               if abs(losses["original"][step] - losses["turned"][step]) > NEAR * losses["original"][step]}
        self.tool.expect(not far, f"{self.name}: between meshes {far}")
        # The loss of step 4 depends only on the weights and the data. The optimizer's state affects that of step 5.
        for name, step in (("no-iterator", "4"), ("no-optimizer", "5")):
            if name in losses:
                self.tool.expect(losses[name][step] != losses["original"][step], f"{self.name}: the loss of step {step} is the same with {name}")
        if "no-optimizer" in losses:
            self.tool.expect(losses["no-optimizer"]["4"] == losses["original"]["4"], f"{self.name}: more than the optimizer's state was changed")
        if show:
            for name in self.ran:
                print(f"{self.name:16} {name:16} " + "  ".join(f"{losses[name][step]:.10f}" for step in STEPS))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--all", action="store_true", help="prints all losses")
    arguments = parser.parse_args()
    if interop.maxtext_release() != interop.CLONE_RELEASE:
        print("PEER MISSING maxtext: a clone (scripts/test --with-maxtext)")
        sys.exit(interop.SKIP_STATUS)
    python, src = (os.environ.get(f"HFSHARD_MAXTEXT_{name}", "") for name in ("PYTHON", "SRC"))
    if not python or not os.path.isdir(os.path.join(src, "maxtext")):
        print("PEER MISSING maxtext: HFSHARD_MAXTEXT_PYTHON and HFSHARD_MAXTEXT_SRC (scripts/test --with-maxtext)")
        return interop.SKIP_STATUS
    folder = tempfile.mkdtemp(prefix="hfshard-resume-")
    try:
        tool = interop.Program(arguments.hfshard, folder)
        models = [Model(tool, "nnx", True), Model(tool, "nnx", False), Model(tool, "linen", True)]
        for number, model in enumerate(models):
            model.plan(deep=number == 0)
        tasks = [task for model in models for task in model.tasks]
        done = subprocess.run([python, PEER, tool.path("data")], input=json.dumps(tasks), capture_output=True, text=True, check=False)
        tool.expect(done.returncode == 0, done.stderr[-3000:])
        if done.returncode == 0:
            answers = json.loads(done.stdout)
            for model in models:
                model.compare(answers[:len(model.ran)], arguments.all)
                answers = answers[len(model.ran):]
        return tool.verdict()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
