#!/usr/bin/env python3
"""A model of the loopback hub, streamed, beside its ceiling: parallel ranged curl of the same bytes.

Makes a checkpoint of random weights of Qwen3-0.6B's shape, with as many layers as give --bytes, and serves it by
tests/support/hub in a process of its own; with --link RATE,DELAY through its slow link (bytes a second, seconds), with
--namespace RATE,DELAY through one that packets of TCP take into a network namespace (as root). Rounds of

    curl to files, then sync: what a download costs; ranges of 64 MiB, --connections at a time
    hfshard convert org/model OUT: the same bytes, converted, on the disk
    curl to /dev/null
    hfshard convert org/model --to null, and of the local directory

which take turns in going first. Before anything is timed, the bytes that the run's rules asked for are compared with curl's.
Processor seconds are those of both sides, the hub's too: on few processors, curl to /dev/null takes all of them, and the
cost of converting comes on top. The bench prints the rate that their sum allows; curl's includes the starts of its processes.

Exit status 1 if more is asked for than 1.02 of what is needed, more is written than the output, a peak exceeds --max-memory,
or a median rate is less than --least (written) or --least-null (discarded) of curl's.
"""

import json
import os
import shlex
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time

import measure

PIECE = 64 * measure.MIB
MOST_READ = 1.02
MOST_WRITTEN = 1.01  # of the output: a journal, a plan and records are written beside it
LAYER_BYTES = 31_465_984  # of this shape, in bf16
MODEL = "org/model"


def parse():
    parser = measure.arguments(__doc__, runs=5)
    parser.add_argument("--bytes", default="4GiB", metavar="SIZE", help="about so many (default 4GiB)")
    parser.add_argument("--vocab", type=int, help="rows of the embedding (default its own)")
    parser.add_argument("--link", metavar="RATE,DELAY", help="as 100e6,0.05: a slow link; without, the loopback interface")
    parser.add_argument("--namespace", metavar="RATE,DELAY", help="the same to clients in a network namespace (needs root)")
    parser.add_argument("--connections", nargs="+", type=int, default=[4, 8], help="of curl; its best round counts (4 8)")
    parser.add_argument("--max-memory", default="2GiB", metavar="SIZE")
    parser.add_argument("--least", type=float, default=0.9, help="of curl to files and sync (default 0.9)")
    parser.add_argument("--least-null", type=float, default=0, help="of curl to /dev/null (default 0)")
    parser.add_argument("--option", action="append", default=[], metavar="WORD", help="passed to hfshard; may be repeated")
    return parser.parse_args()


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.source = os.path.join(folder, "source")
        config = dict(measure.QWEN3_06B)
        config["vocab_size"] = options.vocab or config["vocab_size"]
        table = 2 * config["vocab_size"] * config["hidden_size"]
        config["num_hidden_layers"] = max(1, (measure.parse_size(options.bytes) - table) // LAYER_BYTES)
        self.bytes = measure.make_example(options.hfshard, self.source, config)
        measure.fill_cache(self.source)
        self.jobs = os.path.join(folder, "jobs")
        self.out = os.path.join(folder, "out")
        self.times, self.processor = {}, {}
        self.written = 0  # of the output, at most
        support = os.path.join(measure.ROOT, "tests", "support")
        self.started, self.inside, address = [], [], "127.0.0.1"
        if options.namespace:
            rate, delay = options.namespace.split(",")
            link = subprocess.Popen([sys.executable, "-m", "hub.namespace", "--rate", rate, "--delay", delay], cwd=support,
                                    stdout=subprocess.PIPE, text=True)
            self.started.append(link)
            made = json.loads(link.stdout.readline())
            self.inside, address = ["ip", "netns", "exec", made["namespace"]], made["address"]
        port_file = os.path.join(folder, "hub.json")
        command = [sys.executable, "-m", "hub", "serve", "--repo", f"{MODEL}={self.source}", "--port-file", port_file,
                   "--address", address]
        if options.link:
            command += ["--link", options.link]
        self.hub = subprocess.Popen(command, cwd=support)
        self.started.append(self.hub)
        while not os.path.exists(port_file):
            if self.hub.poll() is not None:
                sys.exit("the hub has ended")
            time.sleep(0.01)
        with open(port_file, encoding="utf-8") as file:
            self.endpoint = json.load(file)["endpoint"]
        self.environment = measure.testing.clean(HF_ENDPOINT=self.endpoint, HF_HOME=os.path.join(folder, "none"))

    def close(self):
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
            process.wait()

    def list_jobs(self):
        """Lists the URLs and ranges for curl; signed URLs live an hour."""
        lines = []
        for path in measure.files_of(self.source):
            if not path.endswith(".safetensors"):
                continue
            asked = f"{self.endpoint}/{MODEL}/resolve/main/{os.path.basename(path)}"
            url = subprocess.run([*self.inside, "curl", "-s", "-o", "/dev/null", "-w", "%{redirect_url}", asked], capture_output=True,
                                 text=True, check=True, env=self.environment).stdout
            size = os.path.getsize(path)
            lines += [f"{at}-{min(size, at + PIECE) - 1} {url}\n" for at in range(0, size, PIECE)]
        with open(self.jobs, "w", encoding="utf-8") as file:
            file.writelines(lines)
        return lines

    def timed(self, name, work):
        """Runs `work()` and notes its time, and the processor seconds of what it started and of the hub."""
        before, began = self.processor_seconds(), time.monotonic()
        outcome = work()
        self.times.setdefault(name, []).append(time.monotonic() - began)
        self.processor.setdefault(name, []).append(self.processor_seconds() - before)
        return outcome

    def processor_seconds(self):
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(f"/proc/{self.hub.pid}/stat", encoding="ascii") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
        return children.ru_utime + children.ru_stime + (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def curl(self, connections, out=None):
        """Each range to a file of its own below `out`, which is on the disk then."""
        place = f"-o {shlex.quote(out)}/$0" if out else "-o /dev/null"
        words = f"xargs -P {connections} -L 1 sh -c 'curl -sS -f {place} -r $0 \"$1\"' < {shlex.quote(self.jobs)}"
        if out:
            words += f" && sync {shlex.quote(out)}/*"
        subprocess.run([*self.inside, "sh", "-c", words], check=True, env=self.environment)

    def convert(self, source, *words):
        measure.testing.clean_own()
        os.environ.update(self.environment)
        return measure.run([*self.inside, self.options.hfshard, "convert", source, *words, "--max-memory", self.options.max_memory,
                            "--json", "--quiet", *self.options.option])

    def empty(self):
        """A directory for what is written; no earlier write is on its way to the disk."""
        shutil.rmtree(self.out, ignore_errors=True)
        os.makedirs(self.out)
        os.sync()
        return self.out

    def turns(self):
        """name -> what it does; of hfshard, that returns the outcome."""
        found = {}
        for count in self.options.connections:
            found[f"curl x {count}, files"] = lambda count=count: self.curl(count, self.out)
        found["hfshard, written"] = lambda: self.convert(MODEL, os.path.join(self.out, "made"))
        for count in self.options.connections:
            found[f"curl x {count}, null"] = lambda count=count: self.curl(count)
        found["hfshard, null"] = lambda: self.convert(MODEL, "--to", "null")
        found["local, null"] = lambda: self.convert(self.source, "--to", "null")
        return found


def best_of(times, ending):
    """The fastest curl of a kind, and its median."""
    name = min((name for name in times if name.startswith("curl") and name.endswith(ending)),
               key=lambda name: statistics.median(times[name]))
    return name, statistics.median(times[name])


def show(bench, options, streamed):
    times = bench.times
    rows = [["what", "min s", "median s", "max s", "MB/s", "processor s", "of curl"]]
    ratios = {}
    for name, seconds in times.items():
        median = statistics.median(seconds)
        _, best = best_of(times, "files" if name.endswith(("files", "written")) else "null")
        ratios[name] = best / median
        rows.append([name, *measure.spread(seconds), f"{bench.bytes / median / 1e6:.0f}",
                     f"{statistics.median(bench.processor[name]):.2f}", f"{ratios[name]:.2f}"])
    measure.print_table(rows)
    fastest, wall = best_of(times, "null")
    floor = (statistics.median(bench.processor[fastest]) + statistics.median(bench.processor["local, null"])) / os.cpu_count()
    print(f"{fastest} and the local conversion together take all {os.cpu_count()} processors for {floor:.2f} s: "
          f"{min(1, wall / floor):.2f} of {fastest} is about the most that --to null can be")
    network = json.loads(streamed[-1].output)["network"]
    files = sum(path.endswith(".safetensors") for path in measure.files_of(bench.source))
    over = network["data_bytes"] / network["used_bytes"]
    peak = max(outcome.peak_bytes for outcome in streamed)
    print(f"{network['data_requests']} requests of data of {files} files, {network['used_bytes'] / network['data_requests'] / 1e6:.1f}"
          f" MB each, {network['requests'] - network['data_requests']} others; {over:.4f}x the bytes needed; "
          f"peak {peak / measure.MIB:.0f} MiB; {bench.written:.4f} of the output written")
    return (over <= MOST_READ and peak <= measure.parse_size(options.max_memory) and bench.written <= MOST_WRITTEN
            and ratios["hfshard, written"] >= options.least and ratios["hfshard, null"] >= options.least_null)


def size_below(folder):
    return sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names)


def main():
    options = parse()
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        bench = Bench(options, folder)
        try:
            jobs = bench.list_jobs()
            warm = bench.convert(MODEL, "--to", "null")
            used = json.loads(warm.output)["network"]["used_bytes"]
            if abs(used - bench.bytes) > 0.01 * bench.bytes:
                sys.exit(f"the run used {used} bytes of {bench.bytes}")
            way = f"namespace {options.namespace}" if options.namespace else f"link {options.link}" if options.link else "loopback"
            print(f"{bench.bytes / 1e9:.2f} GB in {len(jobs)} ranges of curl, {way}")
            streamed = []
            turns = bench.turns()
            for turn in range(options.runs):
                for name in turns if turn % 2 == 0 else reversed(turns):
                    bench.empty()
                    outcome = bench.timed(name, turns[name])
                    if name.startswith("hfshard"):
                        streamed.append(outcome)
                    if name == "hfshard, written":
                        bench.written = max(bench.written, outcome.written_bytes / size_below(bench.out))
            good = show(bench, options, streamed)
        finally:
            bench.close()
    measure.write_json(options.json, bench.times)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
