"""python3 -m hub serve --repo org/name=DIR[@REVISION] ... [--root DIR] [--port-file FILE]: serves until it is killed.

--root DIR also serves every directory DIR/org/name. --link puts a long, narrow link in front. The port file gets
JSON once all listeners exist: endpoint, data, control. A test reads and controls the hub below the control URL
(control.py).
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading

from hub import Hub
from hub.hub import LOOPBACK
from hub.tls import Tls


def repositories(arguments):
    """Returns (id, revision, directory), in the order of the arguments."""
    for text in arguments.repo:
        repo_id, _, place = text.partition("=")
        directory, at, revision = place.rpartition("@")
        if not at or not os.path.isdir(directory):
            directory, revision = place, "main"
        yield repo_id, revision, directory
    if arguments.root:
        for organisation in sorted(os.listdir(arguments.root)):
            for name in sorted(os.listdir(os.path.join(arguments.root, organisation))):
                yield f"{organisation}/{name}", "main", os.path.join(arguments.root, organisation, name)


@contextlib.contextmanager
def link(hub, settings):
    """Puts a slow link in front of the hub and its data host, in a separate process. `settings` is RATE,DELAY."""
    if not settings:
        yield
        return
    rate, _, delay = settings.partition(",")
    behind = (hub.hub, hub.data)
    command = [sys.executable, "-m", "hub.link", "--rate", rate, "--delay", delay or "0"]
    targets = [f"{listener.address}:{listener.port}" for listener in behind]
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with subprocess.Popen([*command, *targets], stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        for listener, port in zip(behind, json.loads(process.stdout.readline()), strict=True):
            listener.behind = port
        try:
            yield
        finally:
            process.terminate()


def serve(arguments, tls):
    with Hub(tls=tls, address=arguments.address) as hub, link(hub, arguments.link):
        for repo_id, revision, directory in repositories(arguments):
            repo = hub.repos.get(repo_id) or hub.add(repo_id, large_bytes=arguments.large_bytes)
            repo.commit(directory, revision)
        hub.page_size = arguments.page_size
        hub.tokens = {token: "somebody" for token in arguments.token}
        where = json.dumps({"endpoint": hub.endpoint, "data": hub.data.origin, "control": hub.hub.origin + "/_control/",
                            "ca_file": hub.ca_file})
        if arguments.port_file:
            with open(arguments.port_file + ".part", "w", encoding="utf-8") as file:
                file.write(where)
            os.rename(arguments.port_file + ".part", arguments.port_file)
        else:
            print(where, flush=True)
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        stopped.wait()
    return 0


def main():
    parser = argparse.ArgumentParser(prog="hub", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("serve")
    command.add_argument("--repo", action="append", default=[], metavar="ID=DIR[@REVISION]")
    command.add_argument("--root", metavar="DIR")
    command.add_argument("--port-file", metavar="FILE")
    command.add_argument("--page-size", type=int, default=1000)
    command.add_argument("--large-bytes", type=int, default=10 << 20, help="files from this size on are stored elsewhere")
    command.add_argument("--address", default=LOOPBACK, help="listen there (default %(default)s)")
    command.add_argument("--token", action="append", default=[], help="a token that is known")
    command.add_argument("--tls", action="store_true")
    command.add_argument("--link", metavar="RATE,DELAY", help="bytes a second, and seconds, of the way to clients (link.py)")
    arguments = parser.parse_args()
    if not arguments.tls:
        return serve(arguments, None)
    with tempfile.TemporaryDirectory() as directory:
        return serve(arguments, Tls(directory))


if __name__ == "__main__":
    sys.exit(main())
