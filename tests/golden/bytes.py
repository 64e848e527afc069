#!/usr/bin/env python3
"""Converts every directory of tests/oracle again, and compares all bytes with those in bytes.txt.

The forms have stacked and separate layers, as far as expected.json has them. They have no mesh and two that divide the
model. They have the default sizes and small ones, with which every matrix has several chunks and a model several files.
Each is raw or, with --compress, in zstd frames. For each form, bytes.txt has the root digest and a hash of every file.

Before a file is hashed, some parts are masked. These are the plan id, what derives from it (the uuid and the checksum
of the manifest), what goes into it (the identity), the root digest (which is in the list itself) and the version. In
hfshard.json, only leaves and tensors count, since the spelling of rules may change. This script computes the root
digest from the records in hfshard.json. So a program that computed it in another way could make the list. The program's
own digest must agree with it when the list is checked.

`--update` writes the list again, or the named folders of it. `--update-ragged FORM` writes one form, marked with
`!`, whose grid became ragged. PROVENANCE.md states when that is right.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "interop"))
import interop
import oracle_dirs

LIST = os.path.join(HERE, "bytes.txt")
# The first two that divide a model are used.
MESHES = ("fsdp=4,tensor=2", "fsdp=2,tensor=2", "fsdp=4", "tensor=2", "fsdp=2", "expert=2", "data=2")
SMALL = ["--chunk-bytes", "64", "--limits", "alignment_bytes=64,floor_bytes=64,file_min_bytes=32768,"
         "file_max_bytes=32768,merge_bytes=16384,segment_bytes=256,commit_bytes=16384,run_bytes=64"]
CODINGS = ("raw", "zstd")
# One form of a checkpoint. Sizes are usual or small. The mesh can be "none".
Form = collections.namedtuple("Form", "oracle layers sizes mesh coding")
# Root digest and the hashes of data files and of all other files, both in the order of their names.
Found = collections.namedtuple("Found", "root data other")


def words_of(form):
    words = ["--layers", form.layers, *oracle_dirs.OracleDir(form.oracle).words()]
    words += SMALL if form.sizes == "small" else []
    words += ["--mesh", form.mesh] if form.mesh != "none" else []
    return words + (["--compress", "zstd"] if form.coding == "zstd" else [])


def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def forms_of(program, oracles):
    """Returns every form that bytes.txt must have for some folders."""
    for name in oracles:
        oracle = oracle_dirs.OracleDir(name)
        for layers in oracle.layouts():
            divide = (mesh for mesh in MESHES if run(
                program, "plan", oracle.path, "--to", "null", "--layers", layers, "--mesh", mesh,
                *oracle.words()).returncode == 0)
            meshes = ["none", next(divide), next(divide)]
            for coding in CODINGS:
                yield Form(name, layers, "usual", "none", coding)
                for mesh in meshes:
                    yield Form(name, layers, "small", mesh, coding)


def files_below(folder):
    """Returns name -> content, in the order of the names."""
    out = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                out[os.path.relpath(path, folder)] = file.read()
    return dict(sorted(out.items()))


def is_data(name):
    return re.fullmatch(r"0/items/d/\d+", name) is not None


def masked(name, content, plan_id):
    """Returns a file without the parts that follow from the plan id."""
    if os.path.basename(name) == "manifest.ocdbt":
        return content[:14] + content[30:-4]  # the uuid, and the checksum of everything before it
    if name == "0/hfshard.json":
        record = json.loads(content)
        content = json.dumps({key: record[key] for key in ("family", "layers", "leaves", "scheme", "step", "tensors")},
                             sort_keys=True).encode()
    content = content.replace(plan_id.encode(), b"PLAN-ID")
    content = re.sub(rb'("root_digest":")[^"]*', rb"\1", content)
    content = re.sub(rb'("version":"|"tool":"hfshard )[^"]*', rb"\1", content)
    return content


def root_digest(record):
    """Returns the SHA-256 of the sorted lines of leaf, tensor and digest. Names are sorted, so their numbers are."""
    lines = []
    for transfer in record["transfers"]:
        digests = transfer["digests"] or ["-"] * len(transfer["sources"])
        lines += [(transfer["leaf"], source, digest) for source, digest in zip(transfer["sources"], digests, strict=True)]
    text = "".join(f"{record['leaves'][leaf]['path']}\n{record['tensors'][tensor]['name']}\n{digest}\n"
                   for leaf, tensor, digest in sorted(lines))
    return hashlib.sha256(text.encode()).hexdigest()


def convert(program, form, own_root=True):
    """Returns the contents of a form of a checkpoint and the files' names, or a sentence if it can't be converted."""
    source = oracle_dirs.OracleDir(form.oracle).path
    with tempfile.TemporaryDirectory(prefix="hfshard-golden-") as folder:
        done = run(program, "convert", source, os.path.join(folder, "out"), "--json", "--quiet", *words_of(form))
        if done.returncode != 0:
            return f"ended with {done.returncode}: {done.stdout}{done.stderr}", []
        report = json.loads(done.stdout)
        files = files_below(os.path.join(folder, "out"))
    data = [hashlib.sha256(content).hexdigest()[:16] for name, content in files.items() if is_data(name)]
    other = [hashlib.sha256(masked(name, content, report["plan_id"])).hexdigest()[:8]
             for name, content in files.items() if not is_data(name)]
    root = root_digest(json.loads(files["0/hfshard.json"]))
    if own_root and report["root_digest"] != root:
        return f"says that its root digest is {report['root_digest']}; hfshard.json adds up to {root}", []
    return Found(root, data, other), list(files)


def convert_all(program, forms, own_root=True):
    """Returns form, its contents and the files' names, for each form."""
    with concurrent.futures.ThreadPoolExecutor(min(8, len(os.sched_getaffinity(0)))) as pool:
        for form, (found, names) in zip(forms, pool.map(lambda form: convert(program, form, own_root), forms)):
            yield form, found, names


def zstd_version(program):
    """Returns the library's release, from a manifest in which it matters."""
    with tempfile.TemporaryDirectory(prefix="hfshard-golden-") as folder:
        name = oracle_dirs.oracle_names()[0]
        source = oracle_dirs.OracleDir(name)
        done = run(program, "convert", source.path, os.path.join(folder, "out"), "--quiet", "--compress", "zstd",
                   *source.words())
        if done.returncode != 0:
            raise SystemExit(f"FAIL {name} --compress zstd\n{done.stdout}{done.stderr}")
        return re.search(r'"zstd":"([0-9.]+)"', files_below(folder)["out/0/hfshard.json"].decode())[1]


def converted(program, forms):
    """Returns form -> its contents. The program may compute root digests in another way."""
    out = {}
    for form, found, _ in convert_all(program, forms, own_root=False):
        if isinstance(found, str):
            raise SystemExit(f"FAIL {' '.join(form)}: {found}")
        out[form] = found
    return out


def write_list(zstd, wanted, ragged):
    with open(LIST, "w", encoding="ascii") as file:
        file.write(f"zstd {zstd}\n")
        root = None
        for form, found in sorted(wanted.items(), key=lambda item: (item[0][:2], CODINGS.index(item[0].coding),
                                                                    item[0].sizes != "usual")):
            if (form.oracle, form.layers, found.root) != root:
                root = (form.oracle, form.layers, found.root)
                file.write(f"{' '.join(root)}\n")
            mark = " !" if form in ragged else ""
            file.write(f"{' '.join(form[2:])} {','.join(found.data)} {','.join(found.other)}{mark}\n")
    return 0


def read_list():
    """Returns the version of zstd, the contents of each form, and the forms whose grid became ragged."""
    wanted, ragged = {}, set()
    with open(LIST, encoding="ascii") as file:
        zstd = file.readline().split()[1]
        for line in file:
            words = line.split()
            if len(words) == 3:
                oracle, layers, root = words
                continue
            form = Form(oracle, layers, *words[:3])
            wanted[form] = Found(root, words[3].split(","), words[4].split(","))
            ragged |= {form} if words[5:] == ["!"] else set()
    return zstd, wanted, ragged


def differences(wanted, found, names):
    """Returns sentences, or none if all is equal."""
    if isinstance(found, str):
        return [found]
    out = [] if wanted.root == found.root else [f"root digest {found.root}, not {wanted.root}"]
    for what, before, now, called in (("data", wanted.data, found.data, [n for n in names if is_data(n)]),
                                      ("other", wanted.other, found.other, [n for n in names if not is_data(n)])):
        if len(before) != len(now):
            out.append(f"{len(now)} {what} files, not {len(before)}: {' '.join(called)}")
            continue
        differ = [name for name, a, b in zip(called, before, now) if a != b]
        out += [f"{len(differ)} of {len(now)} {what} files differ: {' '.join(differ)}"] if differ else []
    return out


def check_complete(wanted):
    """Checks that the list has every oracle, in each of its layouts, with three meshes, raw and compressed."""
    out = []
    for name in oracle_dirs.oracle_names():
        for layers in oracle_dirs.OracleDir(name).layouts():
            for coding in CODINGS:
                meshes = {form.mesh for form in wanted if form[:3] == (name, layers, "small") and form.coding == coding}
                if len(meshes) != 3 or Form(name, layers, "usual", "none", coding) not in wanted:
                    out.append(f"{name} {layers} {coding}: bytes.txt has the meshes {sorted(meshes)}, not three")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool: the program with --limits")
    parser.add_argument("--compress", action="store_true", help="the compressed forms instead of the raw ones")
    parser.add_argument("--update", action="store_true", help="writes bytes.txt, or the named folders of it")
    parser.add_argument("--update-ragged", action="append", default=[], metavar="FORM",
                        help="writes one form, as the check names it")
    parser.add_argument("oracle", nargs="*", help="only these folders of tests/oracle")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.hfshard)
    if arguments.update:
        zstd, wanted, ragged = read_list() if arguments.oracle else (zstd_version(program), {}, set())
        oracles = arguments.oracle or oracle_dirs.oracle_names()
        kept = {form: found for form, found in wanted.items() if form.oracle not in oracles}
        return write_list(zstd, kept | converted(program, list(forms_of(program, oracles))),
                          {form for form in ragged if form.oracle not in oracles})
    zstd, wanted, ragged = read_list()
    if arguments.update_ragged:
        forms = [Form(*text.split()) for text in arguments.update_ragged]
        return write_list(zstd, wanted | converted(program, forms), ragged | set(forms))
    problems = check_complete(wanted)
    if arguments.compress and zstd_version(program) != zstd:
        print(f"SKIPPED: bytes.txt has the frames of zstd {zstd}, this is zstd {zstd_version(program)}")
        return interop.SKIP_STATUS
    coding = CODINGS[arguments.compress]
    forms = [form for form in wanted
             if form.coding == coding and (not arguments.oracle or form.oracle in arguments.oracle)]
    for form, found, names in convert_all(program, forms):
        problems += [f"{' '.join(form)}: {problem}" for problem in differences(wanted[form], found, names)]
    for problem in problems:
        print(f"FAIL {problem}")
    print(f"{len(forms)} conversions, {len(problems)} problems")
    return 1 if problems or not forms else 0


if __name__ == "__main__":
    sys.exit(main())
