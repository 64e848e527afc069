#!/usr/bin/env python3
"""Runs `mappings check --all`: every family at its example and at every size that it lists. None has a problem."""

import argparse
import json
import subprocess
import sys

LEAST_SIZES = 54


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    done = subprocess.run([parser.parse_args().hfshard, "mappings", "check", "--all", "--json"], capture_output=True,
                          text=True, check=False)
    found = json.loads(done.stdout)
    problems = found["problem_count"]
    print(f"{len(found['checks'])} checks, {found['size_count']} sizes, {problems} problems")
    for check in found["checks"]:
        for problem in check["problems"]:
            print(f"FAIL: {check['family']} {check.get('config')} {check['layers']}: {problem}")
    good = done.returncode == 0 and problems == 0
    return 0 if good and found["size_count"] >= LEAST_SIZES else 1


if __name__ == "__main__":
    sys.exit(main())
