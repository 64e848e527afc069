"""Checks the text output of `plan`, `convert` and `link`: within 80 columns, with the same figures as --json.

    plan_text.py PROGRAM TESTS

It runs in an empty directory. It builds the lines from the JSON again, and compares them.
"""

import json
import os
import re
import subprocess
import sys

COLUMNS = (80, 40)
LEAVES = ["--layers", "separate"]
# Fixtures of tests/oracle with names, shapes and words of every kind, and the options for planning them.
FIXTURES = {
    "deepseek3-fp8": [],
    "deepseek3-mtp": ["--with", "mtp", *LEAVES],
    "gpt-oss-mxfp4": ["--mesh", "fsdp=2", "--mesh", "fsdp=4"],
    "gemma4-e4b": LEAVES,
    "qwen3-omni": ["--with", "vision,audio", *LEAVES],
    "kimi-int4": ["--load-mesh", "fsdp=2,tensor=2", "--devices-per-host", "2"],
    "llama3.1": ["--link", "--cast", "*norm*=f32"],
    "mistral": ["--scheme", "hf", "--dtype", "f32"],
    "qwen3": ["--link"],
}
UNITS = ["B", "KiB", "MiB", "GiB", "TiB"]


def human_bytes(count):
    """Formats like base/text.h."""
    value, unit = float(count), 0
    while value >= 1024 and unit + 1 < len(UNITS):
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {UNITS[unit]}" if value >= 999.5 else f"{value:.3g} {UNITS[unit]}"


def human_count(count):
    if count < 1000000:
        return str(count)
    value, unit = count / 1e6, 0
    while value >= 999.5:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {'MBT'[unit]}"


def counted(count, one, many=None):
    return f"1 {one}" if count == 1 else f"{count} {many or one + 's'}"


def shape(extents):
    return "x".join(map(str, extents)) or "scalar"


def links(plan):
    """Returns what is linked, and what isn't, by reason."""
    every = plan["linked_bytes"] + plan["output_bytes"]
    share = 100 * plan["linked_bytes"] / every if every else 0
    out = [("linked", f"{share:.1f}% of the bytes: {human_bytes(plan['linked_bytes'])} in "
            f"{counted(plan['linked_chunks'], 'chunk')} of {counted(plan['linked_leaves'], 'leaf', 'leaves')}")]
    reasons = {}
    for leaf in plan["not_linked"]:
        reasons.setdefault(leaf["why"], []).append(leaf["path"])
    for why, paths in sorted(reasons.items()):
        first = f"1 leaf, {paths[0]}" if len(paths) == 1 else f"{len(paths)} leaves, {paths[0]} the first"
        out.append(("converted", f"{first}: {why}"))
    copied = "nothing; all data stays in the source's files"
    if plan["output_bytes"]:
        copied = f"{human_bytes(plan['output_bytes'])} into {counted(plan['files'], 'side data file')}"
    out.append(("copied", copied + ("; pass --side-file to allow it" if plan["wants_side_file"] else "")))
    return out


def loads(plan):
    for load in plan.get("loads", []):
        most = {key: max(host[key] for host in load["per_host"]) for key in ("needed_bytes", "read_bytes", "requests")}
        who, at_most = ("1 host", "") if load["hosts"] == 1 else (f"each of {load['hosts']} hosts", "up to ")
        yield ("load", f"on {load['mesh'] or 'one device'}: {who} needs {at_most}{human_bytes(most['needed_bytes'])} and reads "
               f"{at_most}{human_bytes(most['read_bytes'])} in {counted(most['requests'], 'request')} "
               f"({load['read_bytes'] / max(load['needed_bytes'], 1):.2f}x)")


def family(plan):
    if plan["scheme"] == "hf":
        return "any (hf: unchanged names and shapes)"
    return f"{plan['family']} ({plan['scheme']}, {plan['layers']})"


def fields(plan, mesh_given):
    """Returns label and words of every line except those of leaves."""
    yield "plan", plan["plan_id"]
    yield "family", f"{family(plan)}, {human_count(plan['parameters'])} parameters"
    yield "mesh", (" and ".join(mesh or "one device" for mesh in plan["meshes"])
                   + ("" if mesh_given else " (chosen; pass --mesh to change it)"))
    yield "source", (f"{counted(plan['tensors'], 'tensor')} in {counted(plan['source_files'], 'file')}, "
                     f"{human_bytes(plan['source_bytes'])} read")
    for change in plan["dtypes"]:
        yield ("decoded" if change["decoded"] else "cast",
               f"{human_bytes(change['source_bytes'])} in, {human_bytes(change['output_bytes'])} out: {change['from']} "
               f"{'decodes to' if change['decoded'] else 'becomes'} {change['to']}")
    if plan["shared_tensors"] == 1:
        yield "shared", "1 tensor is part of several leaves; hfshard reads it once for each"
    elif plan["shared_tensors"]:
        yield "shared", f"{plan['shared_tensors']} tensors are part of several leaves; hfshard reads them once for each"
    yield "output", (f"{human_bytes(plan['output_bytes'])} in {counted(plan['files'], 'data file')}, "
                     f"{counted(plan['chunks'], 'chunk')}, {counted(len(plan['leaves']), 'leaf', 'leaves')}")
    if "linked_bytes" in plan:
        yield from links(plan)
    yield "threads", f"{plan['kernel_threads']} compute, {plan['threads'] - plan['kernel_threads']} read and write files"
    yield "memory", (f"at most {human_bytes(plan['peak_memory_bytes'])}; {human_bytes(plan['need_memory_bytes'])} is enough "
                     f"({human_bytes(plan['control_memory_bytes'])} for the plan)")
    yield from loads(plan)
    yield "time", f"not estimated: {plan['no_estimate']}"


def cells(plan):
    """Returns the table of leaves, its heading first."""
    inner = any("inner" in leaf for leaf in plan["leaves"])
    linking = "linked_bytes" in plan
    yield ["leaf", "dtype", "bytes", "chunks", *(["data"] if linking else []), "shape", "shard", "chunk",
           *(["inner chunk"] if inner else [])]
    for leaf in plan["leaves"]:
        yield [leaf["path"], leaf["dtype"], human_bytes(leaf["bytes"]), str(leaf["chunks"]),
               *([("linked" if leaf.get("linked") else "written")] if linking else []), shape(leaf["shape"]),
               shape(leaf["shard"]), shape(leaf["chunk"]), *([shape(leaf["inner"])] if "inner" in leaf else [])]


def spoken(lines):
    """Returns fields with their continuations joined, and the words of the table before them."""
    said, table = [], []
    for line in lines:
        if line.startswith("  ") and not said:
            table.append(line)
        elif line.startswith(" " * 10):
            said[-1] = (said[-1][0], f"{said[-1][1]} {line.strip()}")
        else:
            said.append((line[:10].strip(), line[10:].strip()))
    return said, table


def is_elided(seen, whole, columns):
    """Returns whether a cell is the whole text, or the part that fits in a line of this many columns."""
    if seen == whole:
        return True
    front, _, back = seen.partition("..")
    return len(seen) == columns - 2 and whole.startswith(front) and whole.endswith(back)


class Check:
    def __init__(self, program, oracle):
        self.program = program
        self.oracle = oracle
        self.problems = []

    def run(self, *words, columns=80):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, check=False,
                              env=os.environ | {"COLUMNS": str(columns)})
        if done.returncode != 0:
            self.problems.append(f"{' '.join(words)}: status {done.returncode}: {done.stderr}")
        for line in [] if "--json" in words else (done.stdout + done.stderr).splitlines():
            if len(line[10:].removesuffix(" \\").split()) == 1 and "=/" in line:  # a path for pasting
                continue
            # In plan, only a single word below its label, such as its id, can be longer.
            if len(line) > 80 or (words[0] == "plan" and len(line) > columns and len(line[10:].split()) > 1):
                self.problems.append(f"{' '.join(words)}: {len(line)} columns of {columns}: {line}")
            if re.search(r"\b1 (\w+ )?(files|chunks|leaves|tensors|requests)\b|\b(0|\d*[2-9]|\d+[01]) (data )?(file|chunk|leaf|"
                         r"tensor|request)\b", line):
                self.problems.append(f"{' '.join(words)}: one or many: {line}")
        return done

    def plan(self, name, options):
        source = os.path.join(self.oracle, name)
        plan = json.loads(self.run("plan", source, *options, "--json", "--quiet").stdout or "{}")
        expected = list(fields(plan, "--mesh" in options))
        for columns in COLUMNS:
            said, table = spoken(self.run("plan", source, *options, columns=columns).stdout.splitlines())
            for one, other in zip(expected + [None] * len(said), said):
                if one != other:
                    self.problems.append(f"plan of {name} at {columns}: {other}, in JSON {one}")
            if len(expected) != len(said):
                self.problems.append(f"plan of {name} at {columns}: {len(said)} fields, not {len(expected)}")
            self.table(f"plan of {name} at {columns}", table, list(cells(plan)), columns)
        return plan

    def table(self, what, lines, rows, columns):
        """Checks that the cells of a row are in their order, and in columns, on one line or on several."""
        starts = []
        at = 0
        for row in rows:
            places, seen = [], []
            while at < len(lines) and len(seen) < len(row):
                for match in re.finditer(r"\S+(?: \S+)*", lines[at]):
                    places.append((len(seen), match.start()))
                    seen.append(match.group())
                at += 1
            good = len(seen) == len(row) and all(is_elided(*pair, columns) for pair in zip(seen, row))
            if not good:
                self.problems.append(f"{what}: {seen}, in JSON {row}")
                return
            starts.append(places)
        if at != len(lines):
            self.problems.append(f"{what}: more than its leaves: {lines[at:]}")
        if any(places != starts[0][:len(places)] for places in starts):
            self.problems.append(f"{what}: the columns are not aligned")

    def convert(self, name, options):
        source = os.path.join(self.oracle, name)
        plan = json.loads(self.run("plan", source, *options, "--json", "--quiet").stdout or "{}")
        for columns in COLUMNS:
            done = self.run("convert", source, f"{name}-{columns}", *options, columns=columns)
            said = dict(spoken(done.stdout.splitlines())[0])
            if plan["scheme"] != "hf" and not re.search(r"^next +\S+ \\\n {10}\S", done.stdout, re.M):
                self.problems.append(f"convert of {name}: next is not folded: {done.stdout}")
            if said.get("family") != family(plan):
                self.problems.append(f"convert of {name}: family {said.get('family')}, in JSON {family(plan)}")


    def link(self, name, options):
        """Checks that plan --link prints everything before it writes, and does nothing else."""
        source = os.path.join(self.oracle, name)
        options = [word for word in options if word != "--link"]
        plan = json.loads(self.run("plan", source, "--link", *options, "--json", "--quiet").stdout)
        expected = [*links(plan), *loads(plan)]
        for columns in COLUMNS:
            out = f"linked-{name}-{columns}"
            done = self.run("link", source, out, *options, columns=columns)
            lines = [line for line in done.stderr.splitlines() if not line.startswith(("note:", "  "))
                     or line.startswith(" " * 10)]
            said, _ = spoken(lines)
            if said != expected:
                self.problems.append(f"link of {name} at {columns}: {said}, in JSON {expected}")
        report = json.loads(self.run("link", source, f"linked-{name}", *options, "--json", "--quiet").stdout)
        for key in ("linked_bytes", "linked_leaves", "linked_chunks", "not_linked", "wants_side_file", "loads", "warnings",
                    "notes", "drops", "family", "scheme", "layers"):
            if report[key] != plan[key]:
                self.problems.append(f"link of {name}: {key} is {report[key]}, of plan --link {plan[key]}")

    def side_file(self, source):
        """Checks that more than 1 GiB of side data needs --side-file. The error names the amount, and hfshard writes
        nothing."""
        casts = ["--cast", "*mlp*=f32", "--cast", "*embedding=f32"]
        plan = json.loads(self.run("plan", source, "--link", *casts, "--json").stdout)
        amount = human_bytes(plan["output_bytes"])
        text = self.run("plan", source, "--link", *casts).stdout
        if not plan["wants_side_file"] or f"{amount} into" not in text or "pass --side-file" not in text:
            self.problems.append(f"plan --link of {amount} of side data does not ask for --side-file")
        for words, status, expected in (([], 2, (amount, "1 GiB", "--side-file")),
                                        (["--side-file"], 3, ("--max-memory", "too little", "memory"))):
            done = subprocess.run([self.program, "link", source, "side", *casts, "--max-memory", "1MiB", "--json", *words],
                                  capture_output=True, text=True, check=False)
            error = json.dumps(json.loads(done.stdout)["error"])
            if done.returncode != status or not any(word in error for word in expected):
                self.problems.append(f"link of {amount} of side data with {words}: {done.returncode}: {error}")
            if status == 2 and not all(word in error for word in expected):
                self.problems.append(f"link of {amount} of side data says {error}")
            if status == 2 and ("copied" not in done.stderr or amount not in done.stderr):
                self.problems.append(f"link of {amount} of side data does not say so first: {done.stderr}")
        if any("side" in name for name in os.listdir(".")):
            self.problems.append("a refused link made something")

    def estimate(self, config):
        """Checks that the time is measured and printed with its limits, and leaves no files. Without it, the plan is
        the same."""
        self.run("mappings", "example", "qwen3", "big", "--sparse", "--config", config, "--json")
        os.mkdir("place")
        before = os.stat("place")
        known = json.loads(self.run("plan", "big", "--json").stdout)
        plan = json.loads(self.run("plan", "big", "place/out", "--json").stdout)
        time = plan["estimate"] or {}
        parts = [time.get(key, 0) for key in ("read_seconds", "write_seconds", "processor_seconds")]
        disk = sum(parts[:2]) if time.get("one_disk") else max(parts[:2])
        if not time or min(parts) <= 0 or abs(time["seconds"] - max(disk, parts[2])) > 1e-6 * time["seconds"]:
            self.problems.append(f"estimate: {time}")
        names = dict(zip(("reading", "writing", "processor"), parts))
        largest = "processor" if parts[2] >= disk else max(("reading", "writing"), key=names.get)
        if time.get("limit") != largest:
            self.problems.append(f"estimate: {time.get('limit')} limits, of {names}")
        if known["plan_id"] != plan["plan_id"] or known["identity"] != plan["identity"]:
            self.problems.append("estimate: the plan is another one with it")
        text = self.run("plan", "big", "place/out").stdout
        said = " ".join(text[text.index("time "):].split())
        if not re.fullmatch(r"time about .+, from a short trial on this machine; (reading|writing|the processor) is the limit "
                            r"\(reading .+, writing .+, processor .+\)", said):
            self.problems.append(f"estimate: {said}")
        after = os.stat("place")
        if os.listdir("place") or (before.st_mtime_ns, before.st_ctime_ns) != (after.st_mtime_ns, after.st_ctime_ns):
            self.problems.append(f"estimate: something was made in the output's directory: {os.listdir('place')}")
        nowhere = json.loads(self.run("plan", "big", "/proc/out", "--json").stdout)
        if nowhere["estimate"] is not None or "can't make a file" not in nowhere["no_estimate"]:
            self.problems.append(f"estimate where nothing can be written: {nowhere['no_estimate']}")
        text = self.run("plan", "big", "/proc/out").stdout
        if f"time not estimated: {nowhere['no_estimate']}" not in " ".join(text.split()):
            self.problems.append(f"estimate where nothing can be written: {text.splitlines()[-1]}")


def main():
    program, tests = sys.argv[1:]
    check = Check(program, os.path.join(tests, "oracle"))
    for name, options in FIXTURES.items():
        check.plan(name, options)
    for name in ("deepseek3-mtp", "qwen3-omni", "mistral"):
        check.convert(name, FIXTURES[name])
    for name in ("llama3.1", "qwen3"):
        check.link(name, FIXTURES[name])
    check.estimate(os.path.join(tests, "..", "bench", "e2e", "qwen3-0.6b.json"))
    check.side_file("big")
    inner = check.plan(os.path.abspath("big"), ["--mesh", "fsdp=64"])
    if not any("inner" in leaf for leaf in inner["leaves"]) or all("inner" in leaf for leaf in inner["leaves"]):
        check.problems.append("no plan has leaves with and without inner chunks")
    for problem in check.problems:
        print(problem)
    print(f"{len(FIXTURES)} plans: " + ("wrong" if check.problems else "ok"))
    return 1 if check.problems else 0


if __name__ == "__main__":
    sys.exit(main())
