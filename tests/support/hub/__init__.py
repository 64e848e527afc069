"""Runs a hub of models on the loopback interface, for tests: the Hub's and its data hosts' answers, and faults.

    with hub.Hub() as server:
        repo = server.add("org/name", {"main": "some/directory"})
        server.script("data", "GET", "*.safetensors", ["cut:1000", "status:503"])
        ...                             # a client with HF_ENDPOINT=server.endpoint
        server.log(listener="data")     # the requests, in order
        server.violations()             # forbidden requests

`python3 -m hub serve` is the same as a program (__main__.py). It needs only the standard library. TLS needs
openssl(1).
"""

from hub.content import Repo
from hub.hub import Hub
from hub.log import Violation

__all__ = ["Hub", "Repo", "Violation"]
