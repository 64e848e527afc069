#!/usr/bin/env python3
"""Checks the output on a terminal: the bar, what remains of it, and what a log and a pipe get instead.

    terminal.py --hfshard TESTTOOL      (the test tool: its --limits make a small source long, its --progress-ms a log
busy)

The terminal is a real one (pty), and `screen` replays the text that was written to it.
"""

import argparse
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))

import hub  # noqa: E402  (a package of tests/support)
import testing  # noqa: E402

CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 256, "intermediate_size": 512,
          "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
          "vocab_size": 8192, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
          "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
LIMITS = ["--limits", "file_min_bytes=65536,file_max_bytes=131072,merge_bytes=8192,floor_bytes=4096,commit_bytes=65536"]
STEPS = ["--chunk-bytes", "8KiB", "--jobs", "1"]
# Enough chunks and files that a run takes a while on any machine.
LONG = ["--limits", "slab_bytes=2048,run_bytes=64,file_min_bytes=1048576,file_max_bytes=2097152,merge_bytes=1024,"
        "floor_bytes=1024,commit_bytes=1"]
TIMEOUT_SECONDS = testing.HANG_SECONDS
PROGRAM = None


def command(*words):
    return [PROGRAM, *words]


def convert(name, *options):
    return command("convert", "source", name, *STEPS, *LIMITS, *options)


def convert_long(name, *options):
    return command("convert", "source", name, *STEPS, *LONG, *options)


def set_columns(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


class Terminal:
    """A command with its stderr on a terminal, and its stdout there too or in a pipe."""

    def __init__(self, words, columns=80, stdout_too=True, kind="xterm"):
        self.written = b""
        self._ours, theirs = pty.openpty()
        set_columns(theirs, columns)
        environment = {**os.environ, "TERM": kind, "LC_ALL": "C"}

        def take_terminal():  # so that Ctrl-C reaches the command
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        self._process = subprocess.Popen(words, stdin=theirs, stdout=theirs if stdout_too else subprocess.PIPE,
                                         stderr=theirs, env=environment, preexec_fn=take_terminal)
        os.close(theirs)

    def read_until(self, pattern):
        """Reads until the pattern is written. Returns False if the command ends without it."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while re.search(pattern, self.written) is None:
            if not select.select([self._ours], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise TimeoutError(f"nothing for {TIMEOUT_SECONDS} s after {self.written[-500:]}")
            try:
                block = os.read(self._ours, 65536)
            except OSError:  # Linux signals a closed other side this way
                block = b""
            if not block:
                return False
            self.written += block
        return True

    def press(self, key):
        os.write(self._ours, key)

    def end(self):
        """Waits. Returns (exit status, text on the terminal, stdout if it's a pipe)."""
        self.read_until(rb"(?!)")
        out = self._process.communicate(timeout=TIMEOUT_SECONDS)[0]
        os.close(self._ours)
        return self._process.returncode, self.written.decode(), (out or b"").decode()


def on_terminal(words, **options):
    return Terminal(words, **options).end()


def plain(written):
    """Returns the text without colors."""
    return re.sub(r"\x1b\[[0-9;]*m", "", written)


def screen(written):
    """Returns the lines on the screen in the end."""
    lines, at = [""], 0
    written = plain(written)
    for token in re.findall(r"\x1b\[K|\r|\n|[^\x1b\r\n]+|\x1b", written):
        if token == "\r":
            at = 0
        elif token == "\n":
            lines.append("")
            at = 0
        elif token == "\x1b[K":
            lines[-1] = lines[-1][:at]
        else:
            lines[-1] = lines[-1][:at].ljust(at) + token + lines[-1][at + len(token):]
            at += len(token)
    return [line.rstrip() for line in lines if line.strip()]


def bars(written):
    """Returns every bar that was drawn."""
    return re.findall(r"\r(\[[#.]*\][^\r\n\x1b]*)", plain(written))


def piped(words, status=0):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
                          check=False)
    assert done.returncode == status, f"{words} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def progress_lines(text):
    return [line for line in text.splitlines() if line.startswith("progress: ")]


class InAFolder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._temporary = tempfile.TemporaryDirectory(prefix="hfshard-terminal-")
        os.chdir(cls._temporary.name)
        with open("config.json", "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)
        piped(command("mappings", "example", "qwen3", "source", "--config", "config.json"))

    @classmethod
    def tearDownClass(cls):
        os.chdir("/")
        cls._temporary.cleanup()


class Bar(InAFolder):
    def test_is_gone_before_the_result_and_ends_full(self):
        commands = {"convert": convert("out"), "verify": command("verify", "out", "source"),
                    "inspect": command("inspect", "out", "--data"),
                    "link": command("link", "source", "linked", "--digests"),
                    "mappings example": command("mappings", "example", "qwen3", "more", "--config", "config.json")}
        for name, words in commands.items():
            with self.subTest(name):
                status, written, _ = on_terminal(words)
                self.assertEqual(status, 0, written)
                self.assertGreaterEqual(len(bars(written)), 2)
                self.assertIn(" 100% ", bars(written)[-1])
                self.assertNotIn("#", "".join(screen(written)))
                # The result follows on a cleared line, and nothing is drawn after it.
                cleared = written.rfind("\r\x1b[K")
                self.assertGreater(cleared, written.rfind(bars(written)[-1]))
                self.assertNotIn("\x1b", written[cleared + 4:])
                self.assertGreater(len(written[cleared + 4:].strip()), 10)

    def test_of_finalize_too(self):
        for worker in ("0/2", "1/2"):
            status, written, _ = on_terminal(convert("shared", "--worker", worker))
            self.assertEqual(status, 0, written)
            self.assertIn(" 100% ", bars(written)[-1], "a worker's bar is of its share")
        status, written, _ = on_terminal(command("finalize", "shared", *LIMITS))
        self.assertEqual(status, 0, written)
        self.assertIn(" 100% ", bars(written)[-1])
        self.assertTrue(any(line.startswith("published shared/0/items") for line in screen(written)), written)

    def test_never_reaches_standard_output(self):
        status, written, out = on_terminal(convert("piped"), stdout_too=False)
        self.assertEqual(status, 0)
        self.assertTrue(bars(written))
        self.assertTrue(out.startswith("published piped/0/items"), out)
        self.assertFalse(set("\r\x1b#") & set(out))

    def test_stands_beside_json_and_not_in_it(self):
        status, written, out = on_terminal(convert("json", "--json"), stdout_too=False)
        self.assertEqual(status, 0)
        self.assertTrue(bars(written))
        self.assertEqual(json.loads(out)["command"], "convert")
        status, written, _ = on_terminal(convert("json", "--json", "--resume"))
        self.assertEqual(status, 0)
        _, written, _ = on_terminal(command("verify", "json", "--json"))
        self.assertTrue(bars(written))
        self.assertEqual(json.loads(screen(written)[-1])["command"], "verify")

    def test_follows_the_width_of_the_terminal(self):
        cells = {}
        for columns in (30, 40, 80, 100, 160):
            status, written, _ = on_terminal(convert_long(f"wide{columns}"), columns=columns)
            self.assertEqual(status, 0, written)
            drawn = bars(written)
            self.assertLess(max(map(len, drawn)), columns)
            self.assertEqual(len({bar.index("]") for bar in drawn}), 1, "the bar does not change its length")
            cells[columns] = drawn[0].index("]") - 1
            self.assertGreaterEqual(cells[columns], 8)
            self.assertEqual(any(" of " in bar for bar in drawn), columns >= 80)
            self.assertEqual(any("/s" in bar for bar in drawn), columns >= 80)
            shutil.rmtree(f"wide{columns}")
        self.assertGreater(cells[160], cells[80])

    def test_never_means_never(self):
        for options in (["--progress", "never"], ["--quiet"]):
            status, written, _ = on_terminal(convert("never" + options[0], *options))
            self.assertEqual(status, 0)
            self.assertEqual(bars(written), [])
            self.assertNotIn("\x1b", written)

    def test_is_lines_where_the_terminal_cannot_take_a_line_back(self):
        status, written, _ = on_terminal(convert("dumb", "--progress-ms", "0"), kind="dumb")
        self.assertEqual(status, 0)
        self.assertEqual(bars(written), [])
        self.assertTrue(progress_lines(written.replace("\r\n", "\n")))


class Log(InAFolder):
    def test_has_a_line_each_interval_and_one_at_the_end(self):
        done = piped(convert("out", "--progress-ms", "1"))
        lines = progress_lines(done.stderr)
        self.assertGreaterEqual(len(lines), 2)
        percent = [int(re.match(r"progress: (\d+)%  [\d.]+ \w+ of [\d.]+ MiB", line)[1]) for line in lines]
        self.assertEqual(percent, sorted(percent))
        self.assertEqual(percent[-1], 100)
        self.assertTrue(done.stdout.startswith("published out/0/items"), done.stdout)
        self.assertNotIn("progress", done.stdout)
        self.assertNotIn("\x1b", done.stderr)

    def test_names_rate_time_left_and_the_stage_that_limits(self):
        # The time left needs two seconds of data, and a fast machine has converted everything by then.
        done = piped(convert_long("named", "--progress-ms", "10", "--stall", "pwrite:40:3000"))
        self.assertRegex(done.stderr, r"progress: \d+%  .* of .*  [\d.]+ \w+/s  \d+:\d\d left  limit (read|kernels|write)\n")
        shutil.rmtree("named")

    def test_of_a_short_run_is_empty(self):
        done = piped(convert("short"))
        self.assertEqual(progress_lines(done.stderr), [])

    def test_is_whole_when_always_is_asked_for_even_with_quiet(self):
        for options in ([], ["--quiet"]):
            done = piped(convert(f"always{len(options)}", "--progress", "always", *options))
            lines = progress_lines(done.stderr)
            self.assertIn(" 0%  ", lines[0])
            self.assertIn(" 100%  ", lines[-1])

    def test_is_empty_when_never_is_asked_for(self):
        done = piped(convert("none", "--progress", "never", "--progress-ms", "0"))
        self.assertEqual(progress_lines(done.stderr), [])

    def test_refuses_other_words_before_anything_is_made(self):
        for words in (convert("word", "--progress", "allways"), command("verify", "word", "--progress", "allways")):
            done = piped(words, status=2)
            self.assertIn("always", done.stderr)
        self.assertFalse(os.path.exists(".word.hfshard"))


class Stalled(InAFolder):
    """Simulates a disk that hangs: no byte is done for a while, so nothing calls the bar or the log."""
    STALL_MS = 4000
    EVERY = ["--progress-ms", "600"]

    def stalls(self, call):
        return ["--stall", f"{call}:40:{self.STALL_MS}"]

    def test_output_is_told_in_a_log_and_the_rate_falls_meanwhile(self):
        done = piped(convert_long("log", *self.stalls("pwrite"), *self.EVERY))
        stalled = [line for line in progress_lines(done.stderr) if re.search(r"  stalled 0:0\d(  limit |$)", line)]
        self.assertGreaterEqual(len(stalled), 2, done.stderr)
        self.assertNotIn("left", "".join(stalled))
        units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
        at = {}  # bytes -> rates; a busy machine can stall in another place too
        for amount, number, unit in re.findall(r"progress: \d+%  (.* of .*)  ([\d.]+) (\w+)/s  stalled", done.stderr):
            at.setdefault(amount, []).append(float(number) * units[unit])
        rates = max(at.values(), key=len, default=[])
        self.assertGreaterEqual(len(rates), 2, done.stderr)
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertLess(rates[-1], rates[0])

    def test_source_is_told_by_a_bar_that_goes_on_and_counts(self):
        status, written, _ = on_terminal(convert_long("bar", *self.stalls("pread"), *self.EVERY))
        self.assertEqual(status, 0, written)
        told = set(re.findall(r"  stalled 0:0([1-9])", written))
        self.assertGreaterEqual(len(told), 2, written[-3000:])
        self.assertTrue(any(line.startswith("published") for line in screen(written)), written)

    def test_source_that_cannot_be_opened_yet_is_waited_for_aloud(self):
        opening = ["--stall", f"open:1:{self.STALL_MS}"]
        done = piped(convert("opened", *opening, *self.EVERY))
        self.assertRegex(done.stderr, r"progress: preparing  0:0[1-9]\n")
        status, written, _ = on_terminal(convert("opened-too", *opening, *self.EVERY))
        self.assertEqual(status, 0, written)
        self.assertRegex(written, r"\rpreparing  0:0[1-9]\x1b\[K")
        self.assertNotIn("preparing", "".join(screen(written)))

    def test_commands_that_never_show_progress_are_silent(self):
        done = piped(convert("quiet", "--quiet", *self.stalls("pwrite"), *self.EVERY))
        self.assertEqual(done.stderr, "")


class Streamed(InAFolder):
    """Simulates a model from the loopback hub, whose link is the slow stage."""
    RATE_BYTES = 1 << 20  # a second, on each connection
    STEPS = ["--limits", "slab_bytes=1048576,request_bytes=262144,segment_bytes=65536,commit_bytes=65536,merge_bytes=65536"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = hub.Hub()
        cls.server.add("org/model", {"main": "source"})

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        super().tearDownClass()

    def environment(self):
        return testing.clean(HF_ENDPOINT=self.server.endpoint, HF_HOME=os.path.abspath("home"))

    def convert(self, name, *options, rate=RATE_BYTES):
        """Converts while its data comes slowly."""
        self.server.reset()
        self.server.script("data", "GET", "*.safetensors", [f"slow:{rate}"], repeat=True)
        return command("convert", "org/model", name, *options)

    def rates(self, texts):
        """Returns MiB a second of each bar or line with a rate of the link."""
        units = {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}
        return [float(number) * units[unit] for text in texts for number, unit in re.findall(r"link ([\d.]+) (\w+)/s", text)]

    def test_bar_has_the_rate_of_the_link_and_the_time_left_and_says_that_the_link_limits(self):
        with mock.patch.dict(os.environ, self.environment(), clear=True):
            # The time left appears after two seconds. A busy machine draws often enough in the others.
            status, written, _ = on_terminal(self.convert("bar", *self.STEPS, rate=self.RATE_BYTES // 10), columns=100)
        self.assertEqual(status, 0, written)
        drawn = bars(written)
        whole = [bar for bar in drawn if re.search(r"\d+%  .* of .*  +link [\d.]+ \w+/s  +\d+:\d\d left  limit link *$", bar)]
        self.assertGreaterEqual(len(whole), 1, drawn)
        sent = sum(entry.bytes_sent for entry in self.server.log(listener="data"))
        seconds = max(entry.at_seconds + entry.seconds for entry in self.server.log(listener="data"))
        rates = self.rates(drawn)
        self.assertGreater(len(rates), len(whole), "the link's rate is known before anything is done")
        # Another unit or another count would be a thousand times as large or as small.
        # Units: a machine that stalls can slow down single rates, but not all of them.
        average = sent / seconds / 2**20
        self.assertTrue(any(average / 20 < rate < average * 20 for rate in rates), f"{rates} MiB/s, and {sent} bytes came in {seconds} s")
        self.assertIn(" 100% ", drawn[-1])
        self.assertTrue(any(line.startswith("published bar/0/items") for line in screen(written)), written)

    def test_bar_counts_while_nothing_comes(self):
        words = self.convert("stalled", *self.STEPS, "--progress-ms", "600")
        self.server.faults.clear()
        self.server.script("data", "GET", "*.safetensors", ["ok", "ok", "ok", "ok", "stall:1000:4"])
        with mock.patch.dict(os.environ, self.environment(), clear=True):
            status, written, _ = on_terminal(words, columns=100)
        self.assertEqual(status, 0, written)
        self.assertRegex(written, r"  stalled 0:0[1-9]")

    def test_what_comes_counts_though_nothing_is_done_yet(self):
        words = self.convert("whole", "--progress-ms", "3000", rate=2 * self.RATE_BYTES)  # one piece of work: done at its end
        with mock.patch.dict(os.environ, self.environment(), clear=True):
            status, written, _ = on_terminal(words, columns=100)
        self.assertEqual(status, 0, written)
        drawn = bars(written)
        percent = [int(re.search(r"(\d+)%", bar)[1]) for bar in drawn]
        self.assertEqual(percent, sorted(percent), drawn)
        self.assertGreaterEqual(len(set(percent)), 3, "what has come is shown while it comes")
        self.assertGreater(len(self.rates(drawn)), 2, drawn)
        # The time left appears after two seconds of data.
        self.assertTrue(any(re.search(r"\d+:\d\d left", bar) for bar in drawn), drawn)
        self.assertFalse(re.search(r"left", drawn[0]), drawn[0])

    def test_fetch_shows_how_far_it_is_and_its_notes_stand_alone(self):
        for words in (["fetch", "org/model"], ["convert", "org/model", "kept", "--keep-files", *self.STEPS]):
            self.convert("", rate=2 * self.RATE_BYTES)
            with mock.patch.dict(os.environ, {**self.environment(), "HF_HOME": os.path.abspath("home-" + words[0])}, clear=True):
                status, written, _ = on_terminal(command(*words), columns=100)
            self.assertEqual(status, 0, written)
            drawn = bars(written)
            self.assertTrue(any(re.search(r" of 8\.\d+ MiB +link [\d.]+ \w+/s  +\d+:\d\d left", bar) for bar in drawn), drawn)
            self.assertIn(" 100% ", drawn[-1])
            left = screen(written)
            self.assertFalse([line for line in left if "[#" in line or "preparing" in line or "[." in line], left)
            self.assertEqual(sum(line.startswith("note: fetched ") for line in left), len(os.listdir("source")), left)

    def test_log_says_the_same(self):
        with mock.patch.dict(os.environ, self.environment(), clear=True):
            done = piped(self.convert("log", *self.STEPS, "--progress-ms", "300", rate=self.RATE_BYTES // 4))
        # A busy machine can end before the time left appears; the tests of the bar see it.
        lines = progress_lines(done.stderr)
        self.assertTrue(any(re.search(r"  link [\d.]+ MiB/s(  \d+:\d\d left)?  limit link$", line) for line in lines), done.stderr)


class Shown(InAFolder):
    def test_rules_are_folded_to_the_terminal_and_stay_lines_in_a_file(self):
        status, written, _ = on_terminal(command("mappings", "show", "qwen3"), columns=90)
        self.assertEqual(status, 0, written)
        self.assertLessEqual(max(map(len, screen(written))), 90)
        piped_lines = piped(command("mappings", "show", "qwen3")).stdout.splitlines()
        self.assertGreater(len(screen(written)), len(piped_lines))
        self.assertEqual(" ".join(written.split()), " ".join("\n".join(piped_lines).split()))


class Colored(InAFolder):
    def test_a_terminal_gets_color_unless_it_has_none(self):
        words = convert("colored")
        for kind, environment, wanted in (("xterm", {}, True), ("dumb", {}, False), ("xterm", {"NO_COLOR": "1"}, False)):
            shutil.rmtree("colored", ignore_errors=True)
            with mock.patch.dict(os.environ, environment):
                _, bar, _ = on_terminal(words, kind=kind)
                _, error, _ = on_terminal(command("inspect", "nowhere"), kind=kind)
            self.assertEqual("\x1b[32m#" in bar, wanted, bar[-500:])
            self.assertEqual(error.startswith("\x1b[1;31mhfshard: error [not_found]:\x1b[0m no such file"), wanted, error)

    def test_errors_are_wrapped_at_words_and_commands_stay_whole(self):
        status, written, _ = on_terminal(command("convert", "source", "out-with-a-name", "--tp", "2", "--max-memory", "1GiB", "--jobs", "3"),
                                         columns=60)
        self.assertEqual(status, 2, written)
        lines = [line.rstrip() for line in screen(written)]
        self.assertIn("  hint    did you mean:", lines)
        self.assertIn("          hfshard convert source out-with-a-name --max-memory 1GiB --jobs 3 --mesh tensor=2", lines)
        status, written, _ = on_terminal(command("plan", "source", "--mesh", "2x4"), columns=60)
        lines = [line.rstrip() for line in screen(written)]
        self.assertEqual(status, 2, written)
        self.assertGreater(len(lines), 4, lines)
        self.assertLessEqual(max(map(len, lines)), 60, lines)
        self.assertIn("pass axes such as fsdp=8,tensor=4; the axes are", " ".join(" ".join(lines).split()))

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_manual_pages_are_shown_as_man_shows_them(self):
        with mock.patch.dict(os.environ, {"MANPAGER": "cat", "PAGER": "cat"}):
            status, written, _ = on_terminal(command("man", "convert"))
        self.assertEqual(status, 0, written)
        self.assertNotIn(".SH", written)
        self.assertIn("SYNOPSIS", re.sub(r".\x08", "", plain(written)))
        self.assertIn(".SH SYNOPSIS", piped(command("man", "convert")).stdout)

    def test_manual_pages_are_help_in_a_pager_where_man_is_missing(self):
        with mock.patch.dict(os.environ, {"PATH": "/nonexistent", "PAGER": "/bin/cat"}):
            status, written, _ = on_terminal(command("man", "convert"))
        self.assertEqual(status, 0, written)
        self.assertIn("Usage: hfshard convert", written)


class Closed(InAFolder):
    def test_streams_are_not_files_that_the_program_opens(self):
        def close_all():
            for stream in (0, 1, 2):
                os.close(stream)

        process = subprocess.Popen(convert("closed", "--stall", "pwrite:1:3000"), preexec_fn=close_all)
        testing.wait_for(process, lambda: os.path.isdir(".closed.hfshard/out"), "the run has begun")
        os.kill(process.pid, signal.SIGSTOP)  # however late this is, the run doesn't end first
        self.assertEqual([os.readlink(f"/proc/{process.pid}/fd/{stream}") for stream in (0, 1, 2)], ["/dev/null"] * 3)
        os.kill(process.pid, signal.SIGCONT)
        self.assertEqual(process.wait(TIMEOUT_SECONDS), 4, "there was nowhere to print the result")
        piped(command("verify", "closed", "source"))


class Stopped(InAFolder):
    def killed(self, name, calls, *options):
        """Simulates a conversion that dies in the middle."""
        piped(convert_long(name, "--die-at", str(calls), *options), status=-signal.SIGKILL)

    def test_run_clears_its_bar_and_prints_what_goes_on_with_it(self):
        os.mkdir("it's here")
        for attempt in range(20):
            name = f"it's here/out{attempt}"
            terminal = Terminal(convert_long(name))
            if terminal.read_until(rb"\] +[1-9]\d?%"):
                terminal.press(b"\x03")
            status, written, _ = terminal.end()
            if status == 0:
                continue  # it was faster
            self.assertEqual(status, 130, written)
            left = screen(written)
            self.assertFalse([line for line in left if "#" in line or "^C" in line], left)
            self.assertTrue(any("[cancelled]" in line for line in left), left)
            # Text longer than a line begins on its own line.
            hint = re.findall(r"to continue, run:\s+(.*--resume)", "\n".join(left))
            self.assertEqual(len(hint), 1, left)
            self.assertTrue(hint[0].endswith(" --resume"))
            done = piped(["bash", "-c", hint[0] + " " + " ".join(LONG)])
            self.assertIn("published it's here", done.stdout)
            self.assertRegex(done.stderr, r"note: resuming: .* of .* are already written \(by 1 worker\)")
            return
        self.fail("every conversion ended before Ctrl-C")

    def test_run_without_a_way_on_promises_none(self):
        for _ in range(20):
            terminal = Terminal(command("convert", "source", "--to", "null", *STEPS, *LONG))
            if terminal.read_until(rb"\] +[1-9]?\d%"):
                terminal.press(b"\x03")
            status, written, _ = terminal.end()
            if status == 0:
                continue  # it was faster
            self.assertEqual(status, 130, written)
            self.assertNotIn("--resume", written)
            self.assertIn("hfshard kept nothing", written)
            return
        self.fail("every conversion ended before Ctrl-C")

    def test_run_is_resumed_and_says_what_it_skips(self):
        self.killed("killed", 1000)
        skipped = r"[\d.]+ [KM]iB of [\d.]+ MiB " + re.escape("are already written (by 1 worker)")
        done = piped(convert_long("killed", "--die-at", "400"), status=-signal.SIGKILL)
        flat = " ".join(done.stderr.split())  # the note's lines are wrapped
        self.assertRegex(flat, rf"note: continuing a stopped run: {skipped}; run hfshard clean OUT to start over")
        done = piped(convert_long("killed", "--resume"))
        self.assertRegex(done.stderr, rf"note: resuming: {skipped}\n")
        done = piped(convert_long("killed", "--resume"))
        self.assertNotIn("resuming", done.stderr)

    def test_run_of_workers_says_how_many_were_there(self):
        for worker in ("0/3", "2/3"):
            done = piped(convert("workers", "--worker", worker))
            self.assertNotIn("continuing", done.stderr, "another worker's share is nothing to go on with")
        done = piped(convert("workers", "--resume"))
        self.assertRegex(done.stderr, r"note: resuming: .* \(by 2 workers\)")

    def test_nothing_to_resume_is_said(self):
        done = piped(convert("fresh", "--resume"))
        flat = " ".join(done.stderr.split())
        self.assertIn("note: nothing to resume: no earlier run with these options has written data here", flat)


def main():
    global PROGRAM
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool")
    arguments, rest = parser.parse_known_args()
    testing.clean_own()
    PROGRAM = os.path.abspath(arguments.hfshard)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
