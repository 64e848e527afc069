"""Requests of a test to a hub that runs as a program: below /_control/, in no log.

    GET  log, violations               POST advance {"seconds": N}
    POST script {"listener", "method", "pattern", "faults", "repeat"}      POST reset {}
"""

import dataclasses
import json


def answer(hub, request, path):
    """Returns the whole answer, as bytes."""
    verb = path.removeprefix("/_control/")
    said = json.loads(request.body or b"{}")
    status, told = 200, {}
    if verb == "log":
        told = [dataclasses.asdict(entry) for entry in hub.log()]
    elif verb == "violations":
        told = [violation._asdict() for violation in hub.violations()]
    elif verb == "advance":
        hub.advance(said["seconds"])
    elif verb == "script":
        hub.script(said.get("listener", "*"), said.get("method", "*"), said.get("pattern", "*"), said["faults"],
                   said.get("repeat", False))
    elif verb == "reset":
        hub.reset()
    else:
        status = 404
    body = json.dumps(told).encode()
    return b"HTTP/1.1 %d Control\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        status, len(body), body)
