#!/usr/bin/env python3
"""Runs the recipes of scripts/cluster on this machine. Each must give the tree of a single process.

`local` runs unchanged. The Slurm script and the commands of the Kubernetes manifest run with the variables that the
engine would set. One process for each index runs at the same time, and one index runs twice.
"""

import argparse
import filecmp
import os
import stat
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    yaml = None

RECIPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "cluster")
WORKERS = 4
MESH = "fsdp=2"


def run(command, **variables):
    """Runs a command to its end. If it fails, the test fails."""
    done = subprocess.run(command, env=os.environ | variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"FAIL: {' '.join(command)}\nended with {done.returncode}\n{done.stdout}{done.stderr}")


def run_together(commands):
    """Starts (command, variables) all at once and waits for each. If one fails, the test fails."""
    started = [(command, subprocess.Popen(command, env=os.environ | variables, stdin=subprocess.DEVNULL, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
               for command, variables in commands]
    ended = [(command, process.communicate()[0], process.returncode) for command, process in started]
    for command, said, status in ended:
        if status != 0:
            sys.exit(f"FAIL: {' '.join(command)}\nended with {status}\n{said}")


def same(left, right):
    """Returns True if two trees have the same names and bytes."""
    found = filecmp.dircmp(left, right, ignore=[])
    if found.left_only or found.right_only or found.funny_files:
        return False
    _, differing, failed = filecmp.cmpfiles(left, right, found.common_files, shallow=False)
    return not differing and not failed and all(
        same(os.path.join(left, name), os.path.join(right, name)) for name in found.common_dirs)


def expect_same(out, reference, recipe):
    if not os.path.isdir(out) or not same(out, reference):
        sys.exit(f"FAIL: {recipe}: the output differs from that of one process")
    print(f"{recipe}: identical to the output of one process", flush=True)


def make_program(folder, program, limits):
    """Makes a program `hfshard` in a folder for PATH: the test tool with small limits, so that every worker has
    files."""
    path = os.path.join(folder, "bin", "hfshard")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\nexec "{program}" {f"--limits {limits}" if limits else ""} "$@"\n')
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    os.environ["PATH"] = os.path.dirname(path) + os.pathsep + os.environ["PATH"]
    return path


def run_local(folder, source, reference):
    """Runs with GNU parallel if it is installed, and with xargs."""
    out = os.path.join(folder, "local")
    run([os.path.join(RECIPES, "local"), str(WORKERS), source, out, "--mesh", MESH])
    expect_same(out, reference, "local")


def run_slurm(folder, source, reference):
    out = os.path.join(folder, "slurm")
    script = os.path.join(RECIPES, "slurm.sbatch")
    run_together([([script], {
        "SOURCE": source, "OUT": out, "OPTIONS": f"--mesh {MESH}", "SLURM_ARRAY_TASK_ID": str(index + 10),
        "SLURM_ARRAY_TASK_MIN": "10", "SLURM_ARRAY_TASK_COUNT": str(WORKERS), "SLURM_CPUS_PER_TASK": "2"})
        for index in [*reversed(range(WORKERS)), 1]])
    run(["hfshard", "finalize", out])
    expect_same(out, reference, "slurm.sbatch")


def run_kubernetes(folder, source, reference):
    if yaml is None:
        print("PEER MISSING PyYAML: kubernetes.yaml is not tested")
        return
    with open(os.path.join(RECIPES, "kubernetes.yaml"), encoding="utf-8") as file:
        convert, finalize = yaml.safe_load_all(file)
    out = os.path.join(folder, "kubernetes")
    container = convert["spec"]["template"]["spec"]["containers"][0]
    values = {entry["name"]: entry["value"] for entry in container["env"]}
    if int(values["WORKERS"]) != convert["spec"]["completions"]:
        sys.exit("FAIL: kubernetes.yaml: WORKERS is not the number of completions")
    command = [part.replace("fsdp=16", MESH) for part in container["command"]]
    run_together([(command, {"SOURCE": source, "OUT": out, "WORKERS": str(WORKERS), "JOB_COMPLETION_INDEX": str(index)})
                  for index in [*reversed(range(WORKERS)), 1]])
    run(finalize["spec"]["template"]["spec"]["containers"][0]["command"], OUT=out)
    expect_same(out, reference, "kubernetes.yaml")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the program, or the test tool with the same commands")
    parser.add_argument("--limits", help="passed as --limits; only the test tool has that option")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hfshard-cluster-") as folder:
        program = make_program(folder, os.path.abspath(arguments.hfshard), arguments.limits)
        source, reference = os.path.join(folder, "source"), os.path.join(folder, "reference")
        run([program, "mappings", "example", "mixtral", source])
        run([program, "convert", source, reference, "--mesh", MESH])
        files = len([name for name in os.listdir(os.path.join(reference, "0", "items", "d")) if name.isdecimal()])
        if arguments.limits and files < WORKERS:
            sys.exit(f"FAIL: {files} data files are too few for {WORKERS} workers")
        run_local(folder, source, reference)
        run_slurm(folder, source, reference)
        run_kubernetes(folder, source, reference)
    return 0


if __name__ == "__main__":
    sys.exit(main())
