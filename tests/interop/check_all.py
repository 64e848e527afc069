#!/usr/bin/env python3
"""Runs `mappings check --all`: every family at its example and at every size that it lists.

The first 54 sizes or more must fit in 10 s of processor time, and further ones in proportionally more. hfshard has
one thread here, and other tests run at the same time.
"""

import argparse
import json
import resource
import subprocess
import sys

LEAST_SIZES = 54
MOST_SECONDS = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    done = subprocess.run([parser.parse_args().hfshard, "mappings", "check", "--all", "--json"], capture_output=True,
                          text=True, check=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    found = json.loads(done.stdout)
    problems = found["problem_count"]
    print(f"{len(found['checks'])} checks, {found['size_count']} sizes, {problems} problems, {seconds:.1f} s")
    for check in found["checks"]:
        for problem in check["problems"]:
            print(f"FAIL: {check['family']} {check.get('config')} {check['layers']}: {problem}")
    good = done.returncode == 0 and problems == 0
    sizes = found["size_count"]
    return 0 if good and sizes >= LEAST_SIZES and seconds <= MOST_SECONDS * sizes / LEAST_SIZES else 1


if __name__ == "__main__":
    sys.exit(main())
