#!/usr/bin/env python3
"""Writes build/all/CTestTestfile.cmake: the checks, and the tests of several presets, as one ctest suite.

ctest can include the suites of other build directories, but not under a prefix. The same names in three presets would
collide. So this asks each preset's ctest for its tests, and writes them again as `<preset>.<name>`, with all their
properties. scripts/test runs it. One suite means one summary. Tests with the label `soak` are left out without --all, those with
`maxtext` without --maxtext.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Exit status of a test that can't run because a peer is missing.
SKIP_STATUS = 77

# Properties whose values name other tests or fixtures of the same preset.
PREFIXED = {"DEPENDS", "FIXTURES_REQUIRED", "FIXTURES_SETUP", "FIXTURES_CLEANUP"}

SANITIZER_ENVIRONMENT = {
    # Eight frames of each allocation, not thirty: most of the time of a test that parses a lot of JSON went there. Freed
    # memory of 32 MB is kept to find its uses, not 256 MB: the kernel had to bring twice as many pages.
    "asan": [
        "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:malloc_context_size=8:quarantine_size_mb=32",
        "UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1",
    ],
    # At the exit of a process, its threads are watched for 100 ms instead of a second, since hundreds of processes run.
    "tsan": [
        "TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=100:ignore_noninstrumented_modules=1:second_deadlock_stack=1:suppressions="
        + os.path.join(ROOT, "tests", "tsan_suppressions.txt"),
    ],
}

# The search for uses of a stack frame after its function has returned takes a third of the time. The gate searches in layers
# that hand out views of texts and buffers, the soak everywhere.
AFTER_RETURN_IN_GATE = ("unit_base", "unit_bytes", "unit_format", "unit_mapping", "unit_tool", "property")

# Cases that the gate leaves to the soak with a sanitizer: they compare more forms of a model with the threads of other cases,
# or resolve more configs, or those of every family, with the code of other cases.
MANY_MODELS = ("CheckFamily.*", "CheckNames.*", "ListMappings.AFamily*", "DiffTest.LayoutsThatShare*", "DiffTest.RecordsTell*",
                "DiffTest.EveryFormOfAModel*", "DiffTest.NamesOfTorch*", "AnewTest.ADtypeLeaves*")
LEFT_TO_SOAK = {
    ("asan", "unit_mapping"): ("*AbsentKey.*",),
    ("asan", "unit_service"): MANY_MODELS,
    ("tsan", "unit_service"): (*MANY_MODELS, "DiffTest.AQuantizedModel*", "DiffTest.TwoTrees*", "DiffCompile.*", "VerifyLostTest.AFileThatIsShortOrGone*"),
}

# Seconds of the longest tests. ctest starts them first, so that none is left alone at the end.
COSTS = {"lint.tidy": 150, "tsan.unit_run": 120, "asan.unit_service": 80, "tsan.unit_service": 150, "release.golden.plans": 60,
         "release.interop.diff_pairs": 70, "release.interop.dcp_variants": 65, "release.interop.torchtitan_words": 60,
         "asan.unit_run": 95, "asan.conformance": 60,
         "release.cli.terminal": 60, "asan.unit_plan": 60, "asan.unit_format": 50, "release.fault.hub_stream": 40, "asan.unit_ops": 40,
         "release.fault.out_of_memory": 40, "release.interop.releases": 35}

# A file system in memory, and the free space that it needs before temporary files go to it.
MEMORY_FILES = "/dev/shm"
MEMORY_FREE_BYTES = 4 << 30
# Prefixes of tests of a preset that don't test the disk. Their files are read back, or are meant to fail. On a disk,
# they would wait ten times as long as they run, and half of their time is the kernel's.
IN_MEMORY = {
    "release": ("golden.", "interop.", "abstract_trees", "torchtitan_names", "module_directories", "fault.hub_", "fault.way_back",
                "fault.kill_publish", "fault.commands", "cluster.", "syscall_faults", "cli.terminal"),
    "asan": ("unit_", "conformance", "property", "cli."),
    "tsan": ("unit_", "conformance", "property", "cli."),
}
MEASURES_A_DISK = "interop.load_bench"


def has_room(directory):
    """Returns whether a directory in memory has room for the temporary files of several tests at once."""
    if not os.path.ismount(directory) or not os.access(directory, os.W_OK):
        return False
    return shutil.disk_usage(directory).free >= MEMORY_FREE_BYTES


def environment_of(preset, name, memory_files, with_soak=False):
    """Returns what a test of a preset gets in addition to its own environment. The release preset's unit, fault and
    command line tests cover real file systems (direct I/O, the page cache), and their files stay there."""
    out = list(SANITIZER_ENVIRONMENT.get(preset, []))
    if preset == "asan":
        out[0] += f":detect_stack_use_after_return={int(with_soak or name in AFTER_RETURN_IN_GATE)}"
    if not with_soak and (preset, name) in LEFT_TO_SOAK:
        out.append("GTEST_FILTER=-" + ":".join(LEFT_TO_SOAK[preset, name]))
    if memory_files and name.startswith(IN_MEMORY.get(preset, ())) and name != MEASURES_A_DISK:
        out.append("TMPDIR=" + MEMORY_FILES)
    return out


def bracket(text):
    """Returns a CMake bracket argument, in which no character is special."""
    equals = "="
    while f"]{equals}]" in text:
        equals += "="
    return f"[{equals}[{text}]{equals}]"


def value_text(prefix, name, value):
    """Returns a property value as CMake text. Lists are joined with semicolons."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        return f"{value:g}" if value < 1e6 else str(int(value))
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SystemExit(f"all_tests: property {name} has a value that is not known here: {value}")
    if name in PREFIXED:
        value = [f"{prefix}.{item}" for item in value]
    return ";".join(item.replace(";", "\\;") for item in value)


def add_test(name, command, properties):
    """Returns the text of one test: its command and its properties."""
    lines = [f"add_test({bracket(name)} {' '.join(bracket(part) for part in command)})"]
    if name in COSTS:
        properties = properties | {"COST": str(COSTS[name])}
    for key, text in properties.items():
        lines.append(f"set_tests_properties({bracket(name)} PROPERTIES {key} {bracket(text)})")
    return "\n".join(lines) + "\n"


def preset_tests(ctest, build, prefix, labels, memory_files, with_soak):
    """Returns the text of the tests of one build directory. `labels`: options of ctest that choose them."""
    command = [ctest, "--test-dir", build, "--show-only=json-v1", *labels]
    listing = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    out = []
    for test in listing["tests"]:
        name = f"{prefix}.{test['name']}"
        command = test.get("command")
        if not command:
            command = ["sh", "-c", f"echo {name}: its program was not built; exit 1"]
        properties = {}
        for entry in test.get("properties", []):
            properties[entry["name"]] = value_text(prefix, entry["name"], entry["value"])
        properties.setdefault("SKIP_RETURN_CODE", str(SKIP_STATUS))
        properties.setdefault("TIMEOUT", "900")
        environment = [item for item in environment_of(prefix, test["name"], memory_files, with_soak)
                       if item.split("=")[0] + "=" not in properties.get("ENVIRONMENT", "")]
        if environment:
            given = [properties["ENVIRONMENT"]] if "ENVIRONMENT" in properties else []
            properties["ENVIRONMENT"] = ";".join(given + environment)
        properties["LABELS"] = ";".join(filter(None, [properties.get("LABELS", ""), prefix]))
        out.append(add_test(name, command, properties))
    return out


def lint_tests(python, with_soak):
    """Returns the checks on the sources, as tests. clang's analyzer takes as long as all its other checks, and follows paths
    that the address sanitizer runs. So only the soak has it."""
    def script(name, *arguments):
        return [python, os.path.join(ROOT, "scripts", name), *arguments]

    base = {"LABELS": "lint", "TIMEOUT": "300", "WORKING_DIRECTORY": ROOT, "SKIP_RETURN_CODE": str(SKIP_STATUS)}
    tidy = base | {"TIMEOUT": "1800", "PROCESSORS": str(os.cpu_count() or 2)}
    return [
        add_test("lint.format", [os.path.join(ROOT, "scripts", "check_format")], base),
        add_test("lint.layers", script("check_layers.py"), base),
        add_test("lint.style", script("check_style.py"), base),
        add_test("lint.voice", script("check_voice.py"), base),
        add_test("lint.defects",
                 [python, os.path.join(ROOT, "tests", "defects", "run.py"), os.path.join(ROOT, "build", "defects"), "--check"], base),
        add_test("lint.clang", script("check_clang.py"), base | {"SKIP_RETURN_CODE": str(SKIP_STATUS)}),
        add_test("lint.tidy", script("run_tidy.py", "--checks"), tidy),
        *([add_test("lint.analyzer", script("run_tidy.py", "--analyzer"), tidy)] if with_soak else []),
        add_test("lint.selftest",
                 [python, "-m", "unittest", "discover", "-s", "tests/lint", "-p", "*_test.py"], base),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ctest", default="ctest")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only-fast", action="store_true", help="only fast tests of every preset")
    parser.add_argument("--all", action="store_true", help="also the soak")
    parser.add_argument("--maxtext", action="store_true", help="also the tests that need MaxText")
    parser.add_argument("presets", nargs="+", help="asan and tsan always give their fast tests only")
    arguments = parser.parse_args()
    text = ["# Written by scripts/all_tests.py.\n"]
    text += lint_tests(arguments.python, arguments.all)
    memory_files = has_room(MEMORY_FILES)
    for preset in arguments.presets:
        left_out = ([] if arguments.all else ["soak"]) + ([] if arguments.maxtext else ["maxtext"])
        labels = ["-LE", f"^({'|'.join(left_out)})$"] if left_out else []
        if arguments.only_fast or preset in SANITIZER_ENVIRONMENT:
            labels += ["-L", "^fast$"]
        text += preset_tests(arguments.ctest, os.path.join(ROOT, "build", preset), preset, labels, memory_files, arguments.all)
    out = os.path.join(ROOT, "build", "all")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
        file.write("\n".join(text))
    where = "in memory" if memory_files else f"on the disk, since {MEMORY_FILES} has less than 4 GiB free"
    print(f"   {sum(part.count('add_test(') for part in text)} tests in build/all; temporary files are {where}")


if __name__ == "__main__":
    main()
