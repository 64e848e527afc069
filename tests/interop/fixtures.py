#!/usr/bin/env python3
"""Converts directories of tests/oracle in every form and reads them back with real TensorStore and Orbax, bit for bit.

The forms have stacked and separate layers, as far as expected.json has them. They have the default mesh and another
one that divides the model. They have the default sizes, and sizes so small that every matrix has several chunks.
Three families have all four combinations, and the others both or neither. Each leaf must have the shape, dtype and
SHA-256 in expected.json. Then the test covers --dtype bf16 and f32, the same checkpoint without its options (towers
become named drops), `hfshard link` of it, and the differences declared in differences.json. It reads three families
in every way of peers/orbax_read.py. It reads the others in every form with TensorStore, and with MaxText's load
call. That loads small pieces onto 8 devices, and the first layout, and what is linked of it, onto one.
"""

import argparse
import itertools
import json
import sys
import tempfile

import interop
import oracle_dirs

# The first mesh that divides every leaf is used, since MaxText accepts no others either.
MESHES = ("fsdp=4,tensor=2", "fsdp=2,tensor=2", "fsdp=4", "fsdp=2", "data=2")
LOAD_MESH = {"fsdp": 4, "tensor": 2}
BOTH_LOADS = ("plain", "sharded")  # of MaxText's call
READ_IN_EVERY_WAY = ("qwen3", "llama3.1", "mixtral")


def check_is_cut(tool, plan, what):
    """Checks that the shrunken sizes split the arrays."""
    for leaf in plan["leaves"]:
        if len(leaf["shape"]) > 1 and leaf["bytes"] > 64:
            tool.expect(leaf["chunks"] > 1, f"{what}: {leaf['path']} of {leaf['bytes']} bytes is one chunk")
    tool.expect(plan["units"] > 20, f"{what}: {plan['units']} units, more than 20 are wanted")
    tool.expect(plan["files"] >= 4, f"{what}: {plan['files']} data files, at least 4 are wanted")


def ways_of(readers, every, loads):
    """Returns name -> function that loads the leaves. `loads`: the forms of MaxText's call among them."""
    ways = {"tensorstore": readers.tensorstore}
    if every:
        for name in ("pytree_handler", "standard_checkpointer", "checkpoint_manager", "v1_load"):
            ways[name] = getattr(readers, name)
        ways["standard_checkpointer sharded"] = lambda: readers.standard_sharded(LOAD_MESH)
    if "plain" in loads:
        ways["maxtext_call"] = readers.maxtext_call
    if "sharded" in loads:
        ways["maxtext_call sharded"] = lambda: readers.maxtext_call(LOAD_MESH)
    return ways


def check_spread(tool, arrays, what):
    """Checks that a sharded load really spreads arrays that divide."""
    spread = sum(len(array.sharding.device_set) == 8 and not array.is_fully_replicated for array in arrays.values())
    tool.expect(2 * spread >= len(arrays), f"{what}: only {spread} of {len(arrays)} leaves are sharded")


def read_back(tool, output, expected, ways, what):
    """Checks that every way of reading gives the expected leaves."""
    import orbax_peer as peer
    import orbax_read

    readers = orbax_read.Readers(peer.item_path(output), expected, with_state=True)
    for name, read in ways(readers).items():
        try:
            arrays = read()
        except Exception as error:  # pylint: disable=broad-except
            tool.expect(False, f"{what}, {name}: {type(error).__name__}: {str(error)[:2000]}")
            continue
        if name.endswith("sharded"):
            check_spread(tool, arrays, f"{what}, {name}")
        found = {leaf: peer.describe(value) for leaf, value in arrays.items()}
        tool.expect(peer.compare(f"{what}, {name}", expected, found) == 0, f"{what}, {name}: leaves differ")


def read_arrays(output):
    """Returns leaf -> array, by TensorStore."""
    import orbax_peer as peer
    import orbax_read

    return orbax_read.Readers(peer.item_path(output), {}, with_state=True).tensorstore()


def describe_found(output):
    """Returns leaf -> shape, dtype and hash, by TensorStore."""
    import orbax_peer as peer

    return {leaf: peer.describe(value) for leaf, value in read_arrays(output).items()}


def mesh_that_divides(tool, oracle, layers):
    """Returns the first mesh that hfshard accepts. Each refusal must name a leaf and the dim that doesn't divide."""
    for mesh in MESHES:
        done = tool.run_any("plan", oracle.path, "--to", "null", "--layers", layers, "--mesh", mesh, *oracle.words())
        if done.returncode == 0:
            return mesh
        said = done.stdout + done.stderr
        tool.expect(done.returncode == 3 and "doesn't divide" in said and "params.params." in said,
                    f"{oracle.name} {layers}: --mesh {mesh} ends with {done.returncode}:\n{said}")
    tool.expect(False, f"{oracle.name} {layers}: no mesh divides it")
    return MESHES[-1]


def check_form(tool, oracle, layers, mesh, shrunken):
    words = ["--layers", layers, *(["--mesh", mesh] if mesh else []), *(interop.SHRUNKEN if shrunken else []),
             *oracle.words()]
    what = f"{oracle.name} --layers {layers}{' --mesh ' + mesh if mesh else ''}{' shrunken' if shrunken else ''}"
    if shrunken:
        check_is_cut(tool, tool.json("plan", oracle.path, *words), what)
    output = tool.path(f"{layers}-{'mesh' if mesh else 'plain'}-{'small' if shrunken else 'usual'}")
    tool.run("convert", oracle.path, output, "--quiet", *words)
    every = oracle.name in READ_IN_EVERY_WAY
    if every and not mesh and not shrunken:
        loads = BOTH_LOADS
    elif every:
        loads = ("sharded",) if mesh else ("plain",)
    elif mesh and shrunken:
        loads = ("sharded",)
    else:
        loads = ("plain",) if not mesh and not shrunken and layers == oracle.layouts()[0] else ()
    ways = lambda readers: ways_of(readers, every and not mesh and not shrunken, loads)
    read_back(tool, output, oracle.kept(layers), ways, what)
    if every or (mesh and shrunken):
        tool.run("verify", output, oracle.path, "--quiet")
        tool.run("verify", output, "--quiet")


def check_linked(tool, oracle, layers, mesh, shrunken):
    """Checks the same tree over the source's own files. Leaves that can't be linked are in a data file next to it."""
    words = ["--layers", layers, *(["--mesh", mesh] if mesh else []), *(interop.SHRUNKEN if shrunken else []),
             *oracle.words()]
    what = f"{oracle.name} link --layers {layers}{' --mesh ' + mesh if mesh else ''}{' shrunken' if shrunken else ''}"
    output = tool.path(f"{layers}-linked-{'small' if shrunken else 'usual'}")
    done = tool.run_any("link", oracle.path, output, "--quiet", "--json", "--digests", *words)
    report = json.loads(done.stdout)
    if done.returncode != 0:  # for example, nothing of a quantized checkpoint may be linkable
        tool.expect(report["error"]["code"] == "unsupported" and "can be linked" in report["error"]["message"],
                    f"{what}: {report['error']}")
        return
    tool.expect(report["linked_leaves"] > 0, f"{what}: no leaf is linked")
    every = oracle.name in READ_IN_EVERY_WAY
    if every:
        loads = ("sharded",) if shrunken else BOTH_LOADS
    else:
        loads = ("plain",) if not shrunken and layers == oracle.layouts()[0] else ()
    ways = lambda readers: ways_of(readers, every and not shrunken, loads)
    read_back(tool, output, oracle.kept(layers), ways, what)
    converted = tool.json("convert", oracle.path, tool.path("same"), "--overwrite", "--quiet", *words)
    tool.expect(report["root_digest"] == converted["root_digest"], f"{what}: another root digest than convert's")
    tool.run("verify", output, oracle.path, "--quiet")
    tool.run("verify", output, "--quiet")


def check_dtypes(tool, oracle, layers):
    """Checks --dtype bf16 and --dtype f32."""
    import numpy as np
    import orbax_peer as peer

    narrow, wide = tool.path(f"{layers}-bf16"), tool.path(f"{layers}-f32")
    for output, dtype in ((narrow, "bf16"), (wide, "f32")):
        tool.run("convert", oracle.path, output, "--quiet", "--layers", layers, "--dtype", dtype, *oracle.words())
    what = f"{oracle.name} --layers {layers} --dtype"
    tool.expect(peer.compare(f"{what} bf16", oracle.as_bf16(layers), describe_found(narrow)) == 0,
                f"{what} bf16: leaves differ")
    kept = read_arrays(tool.path(f"{layers}-plain-usual"))
    expected = {}
    for leaf in oracle.tree(layers):
        expected[leaf] = peer.describe(np.asarray(kept[leaf]).astype(np.float32))
    for leaf, sha256 in oracle.eager_f32(layers).items():
        expected[leaf]["sha256"] = sha256
    tool.expect(peer.compare(f"{what} f32", expected, describe_found(wide)) == 0, f"{what} f32: leaves differ")


def dropped_names(tool, oracle, layers, words):
    """Returns source tensors that go nowhere. Each must have a rule and a reason."""
    report = tool.json("mappings", "check", oracle.path, "--layers", layers, *words)
    tool.expect(report["problems"] == [], f"{oracle.name} {layers}: mappings check has {report['problems'][:3]}")
    for entry in report["dropped"]:
        tool.expect("/drop" in entry["rule"] and entry["why"], f"{oracle.name}: {entry} has no rule or no reason")
    return {entry["tensor"] for entry in report["dropped"]}


def check_drops(tool, oracle, layers):
    """Checks that exactly the tensors that the other converter never reads are named drops."""
    dropped = dropped_names(tool, oracle, layers, oracle.words())
    wanted = set(oracle.facts["dropped"])
    wrong = sorted(dropped ^ wanted)
    tool.expect(not wrong, f"{oracle.name} {layers}: dropped are {wrong[:5]} too many or too few")


def check_without_options(tool, oracle, layers):
    """Checks that without --with, towers are named drops and the rest is the same."""
    if not any(name in oracle.options for name in ("vision", "audio")):
        return
    import orbax_peer as peer

    words = oracle_dirs.words_of({k: v for k, v in oracle.options.items() if k not in ("vision", "audio")})
    output = tool.path(f"{layers}-text")
    tool.run("convert", oracle.path, output, "--quiet", "--layers", layers, *words)
    text = {leaf: facts for leaf, facts in oracle.kept(layers).items()
            if not leaf.startswith(("vision_encoder/", "audio_encoder/"))}
    what = f"{oracle.name} --layers {layers} without towers"
    tool.expect(len(text) < len(oracle.tree(layers)), f"{what}: the expected tree has no tower")
    tool.expect(peer.compare(what, text, describe_found(output)) == 0, f"{what}: leaves differ")
    more = dropped_names(tool, oracle, layers, words) - set(oracle.facts["dropped"])
    tool.expect(len(more) > 0, f"{what}: nothing is dropped")


def check_difference(tool, oracle, entry, layers):
    """Checks that a declared difference exists exactly as declared."""
    what = f"difference {entry['id']} of {oracle.name} --layers {layers}"
    tree = oracle.tree(layers)
    if "as_shipped" in entry:
        shipped = {leaf for leaf, facts in tree.items() if "as_shipped" in facts}
        found, idle = oracle_dirs.matching(sorted(tree), entry["as_shipped"])
        tool.expect(shipped and found == shipped and not idle, f"{what}: {sorted(found ^ shipped)[:5]} {idle}")
        same = [leaf for leaf in shipped if tree[leaf]["as_shipped"]["sha256"] == tree[leaf]["sha256"]]
        tool.expect(not same, f"{what}: {same[:5]} are as MaxText's own code makes them")
    if "drops" in entry:
        names = sorted(dropped_names(tool, oracle, layers, oracle.words()))
        found, idle = oracle_dirs.matching(names, entry["drops"])
        tool.expect(found and not idle, f"{what}: {idle} match none of the dropped tensors {names[:5]}")
    if "stays" in entry:
        tool.expect(oracle.stays(layers), f"{what}: no leaf that is stored in f32 is {entry['stays']}")
    if "added" in entry:
        _, idle = oracle_dirs.matching(sorted(tree), entry["added"])
        tool.expect(not idle, f"{what}: no leaf is {idle}")
    if "constant" in entry:
        check_constants(tool, tree, entry["constant"], what)
    if "eager_f32" in entry:
        told = [leaf for leaf in entry["eager_f32"] if "eager_f32" in tree[leaf]]
        tool.expect(not told, f"{what}: expected.json states {told}")
    if "refused" in entry:
        error = tool.json("convert", oracle.path, tool.path("refused"), "--layers", layers, *entry["words"], status=3)
        tool.expect(error["error"]["code"] == entry["refused"], f"{what}: refused as {error['error']}")
    if "differs" in entry:
        output = tool.path(f"{layers}-{entry['id']}")
        tool.run("convert", oracle.path, output, "--quiet", "--layers", layers, *entry["words"])
        check_differs(tool, oracle.kept(layers), describe_found(output), entry["differs"], what)


def check_constants(tool, tree, declared, what):
    """Checks that leaves without a source hold one value. The tree itself is compared with the output elsewhere."""
    import numpy as np
    import orbax_peer as peer

    for pattern, value in declared.items():
        leaves, idle = oracle_dirs.matching(sorted(tree), [pattern])
        tool.expect(not idle, f"{what}: no leaf is {pattern}")
        for leaf in sorted(leaves):
            facts = tree[leaf]
            wanted = peer.describe(np.full(facts["shape"], value, np.dtype(facts["dtype"])))
            tool.expect(wanted["sha256"] == facts["sha256"], f"{what}: {leaf} is not {value} everywhere")


def check_differs(tool, expected, found, declared, what):
    """Checks that the leaves that differ are the declared ones, in the declared fact: shape, dtype, sha256, missing
    or extra."""
    different = {}
    for leaf in sorted(expected.keys() | found.keys()):
        if leaf not in found or leaf not in expected:
            different[leaf] = "extra" if leaf in found else "missing"
        elif expected[leaf] != found[leaf]:
            different[leaf] = next(k for k in ("shape", "dtype", "sha256") if expected[leaf][k] != found[leaf][k])
    matched, idle = oracle_dirs.matching(sorted(different), declared)
    tool.expect(not idle, f"{what}: {idle} do not differ")
    tool.expect(matched == different.keys(), f"{what}: {sorted(different.keys() - matched)[:5]} differ too")
    for pattern, fact in declared.items():
        wrong = [leaf for leaf in oracle_dirs.matching(sorted(different), [pattern])[0] if different[leaf] != fact]
        tool.expect(not wrong, f"{what}: {wrong[:3]} differ in {[different[leaf] for leaf in wrong[:3]]}, not {fact}")


def check_fixture(program, oracle):
    """Returns the status of one directory."""
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(program, folder)
        print(oracle.name, flush=True)
        tool.expect(oracle.layouts(), f"{oracle.name} expects nothing")
        tool.expect(not oracle.undeclared(), f"{oracle.name}: {oracle.undeclared()[:5]} differ and are not declared")
        tool.expect(not oracle_dirs.undocumented(), f"DIFFERENCES.md: {oracle_dirs.undocumented()}")
        for layers in oracle.layouts():
            other = mesh_that_divides(tool, oracle, layers)
            mixed = oracle.name in READ_IN_EVERY_WAY  # for the others, both or none of mesh and small chunks
            for mesh, shrunken in itertools.product(("", other), (False, True)):
                if mixed or bool(mesh) == shrunken:
                    check_form(tool, oracle, layers, mesh, shrunken)
            check_linked(tool, oracle, layers, "", False)
            check_linked(tool, oracle, layers, other, True)
            if not oracle.keeps_codes:
                check_dtypes(tool, oracle, layers)
            check_drops(tool, oracle, layers)
            check_without_options(tool, oracle, layers)
            for entry in oracle.differences():
                check_difference(tool, oracle, entry, layers)
        return tool.verdict()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool: the program with --limits")
    parser.add_argument("fixtures", nargs="+", metavar="FIXTURE", help="a folder of tests/oracle")
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers()
    return max(check_fixture(arguments.hfshard, oracle_dirs.OracleDir(name)) for name in arguments.fixtures)


if __name__ == "__main__":
    sys.exit(main())
