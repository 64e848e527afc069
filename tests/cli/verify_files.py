"""Damages every file of an output: `verify` must name it and end with 5.

    verify_files.py HFSHARD OUT...

Each file is damaged in one byte, cut short and removed; data files are only cut by their last byte, which can be padding. hfshard.json may also end with 3 (its text is no JSON, or it names what
isn't there). Prints one line for each output.
"""

import json
import os
import re
import subprocess
import sys

DATA = re.compile(r"d/\d{5}|__\d{5}_0\.distcp|model(-\d{5}-of-\d{5})?\.safetensors")


def files_below(folder, data=False):
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            if bool(DATA.search(os.path.join(parent, name))) == data:
                yield os.path.join(parent, name)


def verify(program, out):
    done = subprocess.run([program, "verify", out, "--json"], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def check(program, out, path, how):
    """None when verify names the file."""
    status, report = verify(program, out)
    named = [entry.get("file") for entry in report.get("differences", [])] + [report.get("error", {}).get("file")]
    is_record = os.path.basename(path) == "hfshard.json"
    if (status == 5 or is_record and status == 3) and (path in named or is_record):
        return None
    return f"{path} {how}: status {status}, named: {named}"


def damage(program, out, path):
    """Problems of one file, each way of damaging it in turn."""
    with open(path, "rb") as file:
        data = file.read()
    middle = len(data) // 2
    ways = {"has another byte": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:], "is cut": data[:-1]}
    for how, text in ways.items():
        with open(path, "wb") as file:
            file.write(text)
        yield check(program, out, path, how)
    os.remove(path)
    if os.path.basename(path) != "hfshard.json":
        yield check(program, out, path, "is gone")
    with open(path, "wb") as file:
        file.write(data)


def cut_data(program, out, path):
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        file.seek(size - 1)
        last = file.read()
    os.truncate(path, size - 1)
    problem = check(program, out, path, "is cut")
    with open(path, "ab") as file:
        file.write(last)
    return problem


def main():
    program, outs = sys.argv[1], sys.argv[2:]
    for out in outs:
        status, report = verify(program, out)
        problems = [] if status == 0 else [f"{out}: status {status} before anything was damaged"]
        paths = list(files_below(out))
        recorded = [path for path in paths if os.path.basename(path) != "hfshard.json"]
        if report["files"] != len(recorded):
            problems.append(f"{out}: {report['files']} files are recorded, {len(recorded)} are there: {recorded}")
        for path in paths:
            problems += [problem for problem in damage(program, out, path) if problem]
        problems += [problem for path in files_below(out, data=True) if (problem := cut_data(program, out, path))]
        print("\n".join([*problems, f"{out}: {len(paths)} files, {len(problems)} problems"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
