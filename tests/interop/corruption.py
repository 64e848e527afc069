#!/usr/bin/env python3
"""Damages converted checkpoints. Real Orbax refuses them, and so do `verify` and `inspect --data`, by name.

The test flips one byte in the middle of every data file (and at the ends of some). It finds the tensor and the chunk
with TensorStore. Then it truncates and deletes data files.
"""

import argparse
import ast
import os
import sys
import tempfile

import interop


def chunk_map(item):
    """Returns [(file, begin, end, array, chunk key)] of every chunk, from the raw values in TensorStore's OCDBT."""
    import orbax_peer as peer
    import tensorstore as ts

    store = ts.KvStore.open(peer.kvstore(item)).result()
    files = {}
    for name in sorted(os.listdir(os.path.join(item, "d"))):
        with open(os.path.join(item, "d", name), "rb") as file:
            files[name] = file.read()
    out = []
    for key in sorted(entry.decode() for entry in store.list().result()):
        array, _, chunk = key.rpartition("/c/")
        if not array:
            continue
        value = store.read(key).result().value
        for name, data in files.items():
            at = data.find(value)
            # Equal chunks exist in several places. Each belongs to one array, so uncertain ones are left out.
            if at >= 0 and data.find(value, at + 1) < 0:
                out.append((name, at, at + len(value), array, chunk))
                break
    return out


def positions_of(chunks):
    """Returns (chunk, offset in its file): a chunk in the middle of every file, and at both ends of the first and
    the last."""
    by_file = {}
    for chunk in chunks:
        by_file.setdefault(chunk[0], []).append(chunk)
    out = []
    for name in sorted(by_file):
        inside = sorted(by_file[name], key=lambda chunk: chunk[1])
        chunk = inside[len(inside) // 2]
        out.append((chunk, (chunk[1] + chunk[2]) // 2))
    first, last = out[0][0], out[-1][0]
    return [*out, (first, first[1]), (first, first[2] - 5), (last, last[2] - 1)]


def refused(item):
    """Returns None if every loader refuses the item because of its checksum."""
    import flip_byte_refused

    return flip_byte_refused.load(item)


def names_chunk(differences, array, chunk, tensor_key):
    wanted = [int(part) for part in chunk.split("/")]
    for entry in differences:
        found = entry["chunk"]
        found = list(ast.literal_eval(f"({found},)")) if isinstance(found, str) else found
        if entry[tensor_key] == array and found == wanted:
            return True
    return False


def check_flips(tool, output, chunks, most):
    import orbax_peer as peer

    item = os.path.join(output, "0", "items")
    chosen = positions_of(chunks)
    step = max(1, (len(chosen) - 3) // most)
    for number, (chunk, offset) in enumerate(chosen[:-3:step] + chosen[-3:]):
        name, begin, end, array, key = chunk
        where = f"{array} chunk {key} at {name}:{offset}"
        with peer.flipped_bits(os.path.join(item, "d", name), offset, 1 << number % 8):
            tool.expect(refused(item) is None, f"{where}: Orbax loads it")
            verify = tool.json("verify", output, "--quiet", status=5)
            tool.expect(len(verify["differences"]) == 1 and names_chunk(verify["differences"], array, key, "leaf"),
                        f"{where}: verify says {verify['differences']}")
            inspect = tool.json("inspect", output, "--data", "--quiet", status=3)
            tool.expect(inspect["damaged_count"] == 1 and names_chunk(inspect["damaged"], array, key, "tensor"),
                        f"{where}: inspect says {inspect['damaged']}")
            said = inspect["damaged"][0]
            tool.expect(said["file"].endswith(f"d/{name}") and said["begin_bytes"] <= offset < said["end_bytes"]
                        and (said["begin_bytes"], said["end_bytes"]) == (begin, end),
                        f"{where}: inspect names {said}, the chunk is {begin} to {end}")
    tool.run("verify", output, "--quiet")


def check_lost_file(tool, output, name, lose, tensor_known):
    """Truncates or deletes a data file. Every reader refuses, and hfshard names the file."""
    import orbax_peer as peer
    import orbax_read

    readers = orbax_read.Readers(peer.item_path(output), {}, with_state=True)
    readers.pytree_handler()  # As long as nothing is lost, it loads.
    lose(os.path.join(output, "0", "items", "d", name))
    try:
        readers.pytree_handler()
        tool.expect(False, f"{name} is damaged: Orbax loads it")
    except Exception:  # pylint: disable=broad-except
        tool.expect(True, "")
    for words in (["verify", output], ["inspect", output, "--data"]):
        done = tool.run_any(*words, "--quiet")
        said = done.stdout + done.stderr
        tool.expect(done.returncode in (3, 5), f"{words[0]} ends with {done.returncode} after {name} was damaged")
        tool.expect(f"d/{name}" in said, f"{words[0]} does not name {name}:\n{said}")
        if tensor_known:
            tool.expect("params.params." in said and "chunk" in said, f"{words[0]} names no chunk:\n{said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool: the program with --limits")
    parser.add_argument("--most", type=int, default=10, help="about how many files to damage")
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers()
    import flip_byte_refused

    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        flip_byte_refused.silence_stderr()
        for form, words in (("usual", []), ("shrunken", ["--mesh", "fsdp=4,tensor=2", *interop.SHRUNKEN])):
            output = tool.path(form)
            tool.run("convert", os.path.join(interop.ORACLE, "qwen3"), output, "--quiet", *words)
            chunks = chunk_map(os.path.join(output, "0", "items"))
            tool.expect(len(chunks) >= (5 if form == "usual" else 200), f"{form}: only {len(chunks)} chunks are found")
            check_flips(tool, output, chunks, arguments.most)
        middle = sorted({chunk[0] for chunk in chunks})[len(chunks) // 200]
        check_lost_file(tool, tool.copy("shrunken", "short"), middle, lambda path: os.truncate(path, 1), True)
        check_lost_file(tool, tool.copy("shrunken", "gone"), middle, os.remove, False)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
