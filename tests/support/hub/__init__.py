"""A hub of models on the loopback interface, for tests: what the Hub and its data hosts answer, and what may go wrong.

    with hub.Hub() as server:
        repo = server.add("org/name", {"main": "some/directory"})
        server.script("data", "GET", "*.safetensors", ["cut:1000", "status:503"])
        ...                             # a client with HF_ENDPOINT=server.endpoint
        server.log(listener="data")     # what was asked, in order
        server.violations()             # what no client may do

`python3 -m hub serve` is the same as a program (__main__.py). Only the standard library is needed; TLS needs openssl(1).
"""

from hub.content import Repo
from hub.hub import Hub
from hub.log import Violation

__all__ = ["Hub", "Repo", "Violation"]
