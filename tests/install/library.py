#!/usr/bin/env python3
"""Installs the build, then builds and runs programs that know only the installed package.

    library.py --build BUILD --cmake CMAKE [--generator NAME] [--compiler PATH] [--work FOLDER]

`convert_twice` runs two conversions at once in one process, with two budgets. Both outputs must equal those of the
installed `hfshard convert`. Their buffers must be within their budgets, and the process within both together. The
test also builds and runs the program of README.md, section "As a library".
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def expect(condition, sentence):
    if not condition:
        print(f"FAIL: {sentence}")
        sys.exit(1)


def run(*words):
    """Returns its standard output. Ends the test if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    expect(done.returncode == 0, f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def readme_program():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        section = file.read().split("\n## As a library\n", 1)[-1].split("\n## ", 1)[0]
    return re.search(r"^```cpp\n(.*?)^```$", section, re.M | re.S).group(1)


def check_pages(prefix):
    """Checks that each shell finds its completions, and that every command has a manual page."""
    pages = {"bash-completion/completions/hfshard": "bash", "zsh/site-functions/_hfshard": "zsh",
             "fish/vendor_completions.d/hfshard.fish": "fish"}
    hfshard = os.path.join(prefix, "bin", "hfshard")
    for name, shell in pages.items():
        with open(os.path.join(prefix, "share", name), encoding="utf-8") as file:
            expect(file.read() == run(hfshard, "completions", shell), f"{name} is not what completions {shell} prints")
    manuals = os.path.join(prefix, "share", "man", "man1")
    for command in ([], ["convert"], ["mappings"], ["mappings", "check"]):
        with open(os.path.join(manuals, "-".join(["hfshard", *command]) + ".1"), encoding="utf-8") as file:
            expect(file.read() == run(hfshard, "man", *command), f"the page of {command} is not what man prints")
    commands = set(re.findall(r"^\\fB(\S+)\\fR$", run(hfshard, "man").split(".SH COMMANDS")[1].split(".SH ")[0], re.M))
    names = set(os.listdir(manuals))
    expect(len(commands) > 8, f"commands: {commands}")
    expect(all(f"hfshard-{command}.1" in names for command in commands), f"pages: {sorted(names)}")


def make_source(hfshard, folder):
    """Makes a checkpoint with two layers and about 100 MB. Returns its path."""
    with open(os.path.join(ROOT, "bench", "e2e", "qwen3-0.6b.json"), encoding="ascii") as file:
        config = json.load(file) | {"num_hidden_layers": 2, "vocab_size": 16384}
    path = os.path.join(folder, "source")
    with open(path + ".json", "w", encoding="ascii") as file:
        json.dump(config, file)
    run(hfshard, "mappings", "example", "qwen3", path, "--config", path + ".json", "--quiet")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--work", help="where everything is made (default: the directory for temporary files)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hfshard-install-", dir=arguments.work) as folder:
        path = lambda *names: os.path.join(folder, *names)
        run(arguments.cmake, "--install", arguments.build, "--prefix", path("prefix"))
        check_pages(path("prefix"))
        with open(path("readme.cpp"), "w", encoding="utf-8") as file:
            file.write(readme_program())
        run(arguments.cmake, "-G", arguments.generator, "-S", os.path.join(ROOT, "tests", "install"), "-B", path("build"),
            "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_COMPILER=" + arguments.compiler,
            "-DCMAKE_PREFIX_PATH=" + path("prefix"), "-DREADME_PROGRAM=" + path("readme.cpp"))
        run(arguments.cmake, "--build", path("build"))

        hfshard = path("prefix", "bin", "hfshard")
        source = make_source(hfshard, folder)
        usual = json.loads(run(hfshard, "convert", source, path("usual"), "--json", "--quiet"))["root_digest"]
        lines = run(path("build", "convert_twice"), source, path("small"), path("large")).split("\n")
        budgets = 0
        for line in lines[:2]:
            digest, budget, peak, differences = line.split()
            print(f"budget {int(budget) >> 20} MiB: buffers {int(peak) / 2**20:.1f} MiB, {differences} differences")
            expect(digest == usual, f"digest {digest}, not {usual}")
            expect(0 < int(peak) < int(budget), f"buffers of {peak} bytes with a budget of {budget}")
            expect(differences == "0", f"{differences} differences")
            budgets += int(budget)
        print(f"the process: {int(lines[2]) / 2**20:.1f} MiB of {budgets >> 20} MiB")
        expect(int(lines[2]) <= budgets, "the two runs take more than their budgets together")
        said = run(path("build", "readme"), source, path("readme-out"))
        print(said, end="")
        expect(usual in said, f"the program of README.md says: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
