#!/usr/bin/env python3
"""Checks that the folders of src depend on each other only in flow order, and on third parties only as agreed.

A file in src/<layer> may include its own folder and the folders before it in LAYERS. A format never includes another
format. `plan` and `run` don't use words of a single format or loader (FORMAT_WORDS). `tool` includes only base and the
public headers. Only `tool` prints, reads the environment or exits. Some layers don't use threads (THREADLESS). Each
third-party header has its places (THIRD_PARTY). A public header belongs to the layer that implements it (PUBLIC_LAYER),
and doesn't include a third party. See docs/adr/0002-layers-in-flow-order.md.
"""

import re
import sys

import lint_common

LAYERS = ("base", "bytes", "catalog", "format", "mapping", "ops", "plan", "run", "service", "tool")

# The file that lists the formats, and its header. The layers that know formats only by the interface in catalog. Those
# that may ask the table, but include no single format.
FORMAT_TABLE = "src/format/formats.cpp"
FORMAT_TABLE_HEADER = "format/formats.h"
KNOW_NO_FORMAT = ("mapping", "ops", "plan", "run")
KNOW_THE_TABLE = ("service",)

# The command line is one of the programs that use the library. In src, it knows its own folder and `base`.
TOOL_KNOWS = ("base", "tool")

# Rooms of a layer -> the rooms next to it that they may use. Files above the rooms may use all, and no room uses them.
ROOMS = {
    "bytes": {"local": (), "http": (), "store": ("local",), "hub": ("local", "http", "store")},
    "mapping": {"language": (), "tables": ("language",), "resolve": ("language", "tables")},
    "plan": {"compile": (), "layout": ("compile",), "cost": ("layout", "compile")},
    "run": {"engine": (), "commit": ("engine",), "check": ("engine",)},
}

# Words that `plan` and `run` never use in code, literals or comments: names of formats and loaders, of their files, and
# of what loaders look for. A format answers for these (catalog/format.h), or a scheme does (mapping/tables/scheme_defaults.h).
# A comment with a `Source:` may name them.
NEUTRAL = ("src/plan/", "src/run/")
FORMAT_WORDS = re.compile(
    r'orbax|ocdbt|zarr|maxtext|_checkpoint_metadata|commit_success|scan_layers|opt_state|"d/|"items["/]|"null"', re.I)
COMMENT_BLOCK = re.compile(r"(?:^[ \t]*//[^\n]*\n)+|//[^\n]*|/\*.*?\*/", re.M | re.S)

# include/hfshard/<name>.h -> the layer that implements it.
PUBLIC_LAYER = {
    "error": "base",
    "io": "bytes",
    "dtype": "base",
    "encoding": "catalog",
    "checkpoint": "catalog",
    "mapping": "mapping",
    "plan": "plan",
    "verify": "run",
    "diff": "ops",
    "report": "service",
    "convert": "run",
    "fetch": "service",
    "inspect": "service",
    "mappings": "service",
    "reader": "service",
    "hfshard": "service",
    "hub": "bytes",
}

# Prefix of an angle include -> regular expression of the files that may have it.
THIRD_PARTY = {
    "nlohmann/": r"src/base/json\.cpp",
    "simdjson": r"src/(base/json_key\.h|format/(safetensors/safetensors|orbax/tree)\.cpp)",
    "curl/": r"src/bytes/http/libcurl\.h",
    "zstd": r"src/base/zstd\.cpp",
    "zlib": r"src/base/(crc32|inflate)\.cpp",
    "xxhash": r"src/base/digest\.cpp",
    "openssl/": r"src/base/(digest|sha256)\.cpp",
    "tbb/": r"src/run/.*",
    "oneapi/": r"src/run/.*",
    "CLI/": r"src/tool/parser\.cpp",
    "fmt/": r"src/.*\.cpp",
    "hfshard_build.h": r"src/tool/version\.cpp",  # CMake writes it
}

# Angle includes of the system, in addition to the C++ library's (whose names have no dot and no slash).
SYSTEM = re.compile(
    r"^(sys|linux|asm)/[a-z0-9_]+\.h$"
    r"|^(dirent|dlfcn|errno|fcntl|fnmatch|glob|limits|malloc|poll|pthread|pwd|sched|signal|stdio|stdlib|string|strings|time|unistd)\.h$"
    r"|^[a-z0-9]*intrin\.h$|^cpuid\.h$|^sanitizer/[a-z_]+\.h$")
STANDARD = re.compile(r"^[a-z0-9_]+$")

# Layers that start no thread and share only constants. So the thread sanitizer doesn't need to run their tests alone.
THREADLESS = ("catalog", "format", "mapping", "ops", "plan")
THREADS = re.compile(r"<(thread|mutex|shared_mutex|atomic|future|condition_variable|semaphore|latch|barrier|stop_token"
                     r"|pthread[.]h)>|\bthread_local\b")

# Code that only `tool` may use. iostream is refused as a whole, since it exists to print.
TOOL_ONLY = re.compile(
    r"#\s*include\s*<(iostream|print|fmt/ostream\.h)>"
    r"|\bstd::(cout|cerr|clog)\b"
    r"|(?<![\w.>])(?:std::|::)?(?:printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|fputc|perror|getenv|secure_getenv"
    r"|setenv|exit|_exit|quick_exit|abort)\s*\("
    r"|\bfmt::print(ln)?\s*\(")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def layer_of(path):
    """Returns the position in LAYERS and the name of the format, if any, for a file below src or include."""
    parts = path.split("/")
    if parts[0] == "include":
        layer = PUBLIC_LAYER.get(parts[-1].removesuffix(".h"))
    else:
        layer = parts[1] if parts[1] in LAYERS else None
    if layer is None:
        return None, None
    return LAYERS.index(layer), parts[2] if layer == "format" and len(parts) > 3 else None


def check_rooms(path, name):
    """Checks a quoted include within one layer. Returns the problem, or None."""
    own, target = path.split("/"), ("src/" + name).split("/")
    rooms = ROOMS.get(target[1])
    if rooms is None or own[:2] != target[:2] or len(own) < 4:
        return None
    if own[2] not in rooms:
        return f"{own[1]}/{own[2]} is no room that scripts/check_layers.py knows (ROOMS)"
    if len(target) < 4:
        return f'the room {own[1]}/{own[2]} may not include "{name}", which is above it'
    if target[2] != own[2] and target[2] not in rooms[own[2]]:
        return f'the room {own[1]}/{own[2]} may not include "{name}"'
    return None


def check_project_include(path, name):
    """Checks a quoted include. Returns the problem, or None."""
    if name.startswith("hfshard/"):
        target = "include/" + name
    else:
        target = "src/" + name
    if "/" not in name or ".." in name:
        return f'"{name}" must be written from src or include: "layer/name.h"'
    if path.startswith("include/") and not name.startswith("hfshard/"):
        return f'a public header includes the private "{name}"'
    layer, target_format = layer_of(target)
    own_layer, own_format = layer_of(path)
    if layer is None:
        known = "PUBLIC_LAYER" if target.startswith("include/") else "LAYERS"
        return f'"{name}" belongs to no layer that scripts/check_layers.py knows ({known})'
    if layer > own_layer:
        return f'{LAYERS[own_layer]} may not include "{name}": {LAYERS[layer]} comes later in the flow'
    if LAYERS[own_layer] == "tool" and target.startswith("src/") and LAYERS[layer] not in TOOL_KNOWS:
        return f'tool uses the library through hfshard/hfshard.h, not "{name}"'
    if target_format and target_format != own_format and LAYERS[own_layer] == "format" and path != FORMAT_TABLE:
        return f'format {own_format or "code shared by formats"} may not include format {target_format}: "{name}"'
    if LAYERS[layer] == "format" and LAYERS[own_layer] in KNOW_NO_FORMAT:
        return f'{LAYERS[own_layer]} knows formats only through catalog/format.h, not "{name}"'
    if LAYERS[layer] == "format" and LAYERS[own_layer] in KNOW_THE_TABLE and name != FORMAT_TABLE_HEADER:
        return f'{LAYERS[own_layer]} knows formats only through {FORMAT_TABLE_HEADER}, not "{name}"'
    return check_rooms(path, name)


def check_angle_include(path, name):
    """Checks an angle include. Returns the problem, or None."""
    for prefix, places in THIRD_PARTY.items():
        if name.startswith(prefix):
            if path.startswith("include/"):
                return f"<{name}> in a public header"
            if not re.fullmatch(places, path):
                return f"<{name}> belongs in {places}"
            return None
    if STANDARD.match(name) or SYSTEM.match(name):
        return None
    return f"<{name}> is neither standard nor listed in scripts/check_layers.py"


def without_sources(text):
    """Returns the text without comments that cite a source. Lines stay where they are."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0)) if "Source:" in match.group(0) else match.group(0)

    return COMMENT_BLOCK.sub(blank, text)


def check_text(path, text):
    """Returns all problems of one file below src or include, as `path:line: sentence`."""
    problems = []
    if layer_of(path)[0] is None:
        return [f"{path}:1: this file is in no layer that scripts/check_layers.py knows"]

    def line_of(position):
        return text.count("\n", 0, position) + 1

    with_strings = lint_common.strip_cpp(text, keep_strings=True)
    for match in INCLUDE.finditer(with_strings):
        check = check_project_include if match.group(1) == '"' else check_angle_include
        problem = check(path, match.group(2))
        if problem:
            problems.append(f"{path}:{line_of(match.start())}: {problem}")
    if not path.startswith("src/tool/"):
        for match in TOOL_ONLY.finditer(lint_common.strip_cpp(text)):
            found = match.group(0).rstrip("( ")
            problems.append(f"{path}:{line_of(match.start())}: only tool may print, read the environment or exit: "
                            f"{found}")
    if path.startswith(tuple(f"src/{layer}/" for layer in THREADLESS)):
        for match in THREADS.finditer(with_strings):
            problems.append(f"{path}:{line_of(match.start())}: threads begin in run; the thread sanitizer does not run the "
                            f"tests of this layer: {match.group(0)}")
    if path.startswith(NEUTRAL):
        for match in FORMAT_WORDS.finditer(without_sources(text)):
            problems.append(f"{path}:{line_of(match.start())}: plan and run say nothing of a single format: "
                            f"{match.group(0)}")
    return problems


def check_tree(root):
    """Returns all problems of a tree."""
    problems = []
    for path in lint_common.project_files(root):
        in_layers = path.startswith(("src/", "include/")) and path.endswith((".h", ".cpp"))
        if in_layers:
            problems += check_text(path, lint_common.read_text(root, path))
    return problems


if __name__ == "__main__":
    sys.exit(lint_common.report(check_tree(lint_common.ROOT), "check_layers"))
