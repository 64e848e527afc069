#!/usr/bin/env python3
"""`mappings check --all`: every family at its example and at every size that it lists, at least 54 sizes, in 10 s."""

import argparse
import json
import subprocess
import sys
import time

LEAST_SIZES = 54
MOST_SECONDS = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hfshard", required=True)
    started = time.monotonic()
    done = subprocess.run([parser.parse_args().hfshard, "mappings", "check", "--all", "--json"], capture_output=True,
                          text=True, check=False)
    seconds = time.monotonic() - started
    found = json.loads(done.stdout)
    print(f"{len(found['checks'])} checks, {found['size_count']} sizes, {found['problem_count']} problems, {seconds:.1f} s")
    for check in found["checks"]:
        for problem in check["problems"]:
            print(f"FAIL: {check['family']} {check.get('config')} {check['layers']}: {problem}")
    good = done.returncode == 0 and found["problem_count"] == 0
    return 0 if good and found["size_count"] >= LEAST_SIZES and seconds <= MOST_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
