"""Checks help in terminals of several widths: no line is longer than the terminal's width, or than 80.

    help_width.py PROGRAM

Examples are for pasting, so they are never broken.
"""

import fcntl
import os
import pty
import struct
import sys
import termios


def lines_in(columns, words):
    """Returns the lines that a command prints to a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = os.fork()
    if child == 0:
        os.environ.pop("COLUMNS", None)  # it would override the terminal
        os.dup2(slave, 1)
        os.execv(words[0], words)
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            break
        text += part
    os.close(master)
    status = os.waitpid(child, 0)[1]
    return text.decode().replace("\r\n", "\n").split("\nExamples:")[0].split("\n") if status == 0 else []


def main():
    program = os.path.abspath(sys.argv[1])
    for columns in (40, 60, 80, 200):
        longest = max(map(len, lines_in(columns, [program, "convert", "--help"])), default=0)
        bound = min(columns, 80)
        print(f"{columns} columns: {'ok' if bound - 12 < longest <= bound else f'lines of {longest}'}")


if __name__ == "__main__":
    main()
