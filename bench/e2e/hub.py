#!/usr/bin/env python3
"""A model of the loopback hub, streamed and discarded, beside its ceiling: parallel ranged curl of the same bytes.

Makes a checkpoint of random weights of Qwen3-0.6B's shape, with as many layers as give --bytes, and serves it by
tests/support/hub in a process of its own; with --link RATE,DELAY through its slow link (bytes a second, seconds). Rounds of

    curl to /dev/null, --connections at a time, ranges of 64 MiB
    hfshard convert org/model --to null

which take turns in going first. Before anything is timed, the rows that both count are compared: curl's bytes and the bytes
that the run's rules asked for. Exit status 1 if more is asked for than 1.02 of what is needed, a peak exceeds --max-memory,
or the median is less than --least of curl's.
"""

import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time

import measure

PIECE = 64 * measure.MIB
MOST_READ = 1.02
LAYER_BYTES = 31_465_984  # of this shape, in bf16
MODEL = "org/model"


def parse():
    parser = measure.arguments(__doc__, runs=5)
    parser.add_argument("--bytes", default="4GiB", metavar="SIZE", help="about so many (default 4GiB)")
    parser.add_argument("--vocab", type=int, help="rows of the embedding (default its own)")
    parser.add_argument("--link", metavar="RATE,DELAY", help="as 100e6,0.05: a slow link; without, the loopback interface")
    parser.add_argument("--connections", nargs="+", type=int, default=[4, 8], help="of curl; its best round counts (4 8)")
    parser.add_argument("--max-memory", default="2GiB", metavar="SIZE")
    parser.add_argument("--least", type=float, default=0, help="of curl's median rate; less is an error (default 0)")
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
        self.jobs = os.path.join(folder, "jobs")
        port_file = os.path.join(folder, "hub.json")
        command = [sys.executable, "-m", "hub", "serve", "--repo", f"{MODEL}={self.source}", "--port-file", port_file]
        if options.link:
            command += ["--link", options.link]
        self.hub = subprocess.Popen(command, cwd=os.path.join(measure.ROOT, "tests", "support"))
        while not os.path.exists(port_file):
            if self.hub.poll() is not None:
                sys.exit("the hub has ended")
            time.sleep(0.01)
        with open(port_file, encoding="utf-8") as file:
            self.endpoint = json.load(file)["endpoint"]
        self.environment = {**os.environ, "HF_ENDPOINT": self.endpoint, "HF_HOME": os.path.join(folder, "none"), "no_proxy": "*"}

    def close(self):
        self.hub.send_signal(signal.SIGTERM)
        self.hub.wait()

    def list_jobs(self):
        """What curl asks for: signed URLs live an hour."""
        lines = []
        for path in measure.files_of(self.source):
            if not path.endswith(".safetensors"):
                continue
            asked = f"{self.endpoint}/{MODEL}/resolve/main/{os.path.basename(path)}"
            url = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{redirect_url}", asked], capture_output=True,
                                 text=True, check=True, env=self.environment).stdout
            size = os.path.getsize(path)
            lines += [f"{at}-{min(size, at + PIECE) - 1} {url}\n" for at in range(0, size, PIECE)]
        with open(self.jobs, "w", encoding="utf-8") as file:
            file.writelines(lines)
        return lines

    def curl(self, connections):
        words = f"xargs -P {connections} -L 1 sh -c 'curl -sS -f -o /dev/null -r $0 \"$1\"' < {shlex.quote(self.jobs)}"
        began = time.monotonic()
        subprocess.run(words, shell=True, check=True, env=self.environment)
        return time.monotonic() - began

    def stream(self):
        os.environ.update(self.environment)
        return measure.run([self.options.hfshard, "convert", MODEL, "--to", "null", "--max-memory", self.options.max_memory,
                            "--json", "--quiet", *self.options.option])


def show(bench, options, times, streamed):
    best = min((name for name in times if name != "hfshard"), key=lambda name: statistics.median(times[name]))
    rows = [["what", "min s", "median s", "max s", "MB/s", f"of {best}"]]
    for name, seconds in times.items():
        median = statistics.median(seconds)
        rows.append([name, *measure.spread(seconds), f"{bench.bytes / median / 1e6:.0f}",
                     f"{statistics.median(times[best]) / median:.2f}"])
    measure.print_table(rows)
    network = json.loads(streamed[-1].output)["network"]
    over = network["data_bytes"] / network["used_bytes"]
    peak = max(outcome.peak_bytes for outcome in streamed)
    print(f"{network['data_requests']} requests of data, {network['used_bytes'] / network['data_requests'] / 1e6:.1f} MB each; "
          f"{over:.4f} of what was needed; peak {peak / measure.MIB:.0f} MiB")
    ratio = statistics.median(times[best]) / statistics.median(times["hfshard"])
    print(f"{ratio:.2f} of {best}")
    return over <= MOST_READ and peak <= measure.parse_size(options.max_memory) and ratio >= options.least


def main():
    options = parse()
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        bench = Bench(options, folder)
        try:
            jobs = bench.list_jobs()
            warm = bench.stream()
            used = json.loads(warm.output)["network"]["used_bytes"]
            if abs(used - bench.bytes) > 0.01 * bench.bytes:
                sys.exit(f"the run used {used} bytes of {bench.bytes}")
            print(f"{bench.bytes / 1e9:.2f} GB in {len(jobs)} ranges of curl, {'link ' + options.link if options.link else 'loopback'}")
            times, streamed = {}, []
            turns = [(f"curl x {count}", count) for count in options.connections] + [("hfshard", 0)]
            for turn in range(options.runs):
                for name, count in turns if turn % 2 == 0 else reversed(turns):
                    if count:
                        seconds = bench.curl(count)
                    else:
                        streamed.append(bench.stream())
                        seconds = streamed[-1].seconds
                    times.setdefault(name, []).append(seconds)
            good = show(bench, options, times, streamed)
        finally:
            bench.close()
    measure.write_json(options.json, times)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
