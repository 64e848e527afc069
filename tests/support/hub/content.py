"""The contents of a hub: repositories, their commits and files, each with the digests that it tells a client."""

import fnmatch
import hashlib
import os
import threading

LARGE_PATTERNS = ("*.safetensors", "*.bin", "*.gguf", "*.pt", "*.pth", "*.onnx", "*.msgpack", "*.h5")
LARGE_BYTES = 10 << 20
READ_BYTES = 1 << 20

PLAIN, LFS, XET = "A", "B", "C"


class Content:
    """The bytes of a file: in memory, or a file on disk, which is read only on request.

    The sha256 of a file on disk is computed once for each (path, size, mtime). So several hubs of one process can
    serve sparse gigabytes and read them only once.
    """

    _known = {}
    _lock = threading.Lock()

    def __init__(self, source):
        self.path = None if isinstance(source, bytes) else os.path.abspath(source)
        self.data = source if self.path is None else None
        self.size = len(source) if self.path is None else os.path.getsize(self.path)

    def read(self, begin, end):
        if self.data is not None:
            return self.data[begin:end]
        with open(self.path, "rb") as file:
            file.seek(begin)
            return file.read(end - begin)

    def sha256(self):
        if self.data is not None:
            return hashlib.sha256(self.data).hexdigest()
        info = os.stat(self.path)
        key = (self.path, info.st_size, info.st_mtime_ns)
        with self._lock:
            if key not in self._known:
                with open(self.path, "rb") as file:
                    self._known[key] = hashlib.file_digest(file, "sha256").hexdigest()
            return self._known[key]

    def git_oid(self):
        digest = hashlib.sha1(b"blob %d\0" % self.size)
        for begin in range(0, self.size, READ_BYTES):
            digest.update(self.read(begin, min(begin + READ_BYTES, self.size)))
        return digest.hexdigest()


class File:
    """A file of a commit: its content, the form of the resolver's answer for it, and its digests."""

    def __init__(self, repo_id, path, content, kind):
        self.repo_id = repo_id
        self.path = path
        self.content = content
        self.kind = kind
        self.size = content.size
        self.sha256 = self.pointer_size = self.xet_hash = None
        if kind == PLAIN:
            self.oid = content.git_oid()
            return
        self.sha256 = content.sha256()
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n".encode()
        self.pointer_size = len(pointer)
        self.oid = hashlib.sha1(b"blob %d\0" % len(pointer) + pointer).hexdigest()
        if kind == XET:
            self.xet_hash = hashlib.sha256(b"xet:" + self.sha256.encode()).hexdigest()

    @property
    def name(self):
        """Returns the name for a test's pattern and for the log."""
        return f"{self.repo_id}/{self.path}"

    @property
    def etag(self):
        """Returns the cache's name for the file."""
        return self.sha256 or self.oid

    @property
    def data_etag(self):
        """Returns the data host's own ETag: 64 hex digits that aren't a digest of the content."""
        return self.xet_hash or hashlib.sha256(b"store:" + self.sha256.encode()).hexdigest()

    def tree_entry(self, expand=False):
        entry = {"type": "file", "oid": self.oid, "size": self.size, "path": self.path}
        if self.sha256:
            entry["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": self.pointer_size}
        if self.xet_hash:
            entry["xetHash"] = self.xet_hash
        if expand:
            entry["lastCommit"] = None
            entry["securityFileStatus"] = {"status": "safe"}
        return entry

    def sibling(self, blobs):
        entry = {"rfilename": self.path}
        if blobs:
            entry.update(size=self.size, blobId=self.oid)
            if self.sha256:
                entry["lfs"] = {"sha256": self.sha256, "size": self.size, "pointerSize": self.pointer_size}
        return entry


class Commit:
    def __init__(self, repo_id, number, files):
        self.files = {path: files[path] for path in sorted(files)}
        lines = [f"{repo_id} {number}"] + [f"{file.oid} {path}" for path, file in self.files.items()]
        self.sha = hashlib.sha1("\n".join(lines).encode()).hexdigest()

    def folders(self):
        """Returns every directory, with an object id."""
        found = set()
        for path in self.files:
            parts = path.split("/")[:-1]
            found.update("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        return found


class Repo:
    """A repository. Its members state what it refuses: `gated`, `private`, `disabled`, `readers`.

    `readers` are the tokens that may read a gated or private one. `kinds` maps patterns of paths to kinds (PLAIN,
    LFS, XET), and the first match counts. Otherwise names of weights and large files are XET. `plain_redirect`
    states whether plain files are answered through /api/resolve-cache.
    """

    def __init__(self, repo_id, large_bytes=LARGE_BYTES, kinds=None):
        self.id = repo_id
        self.large_bytes = large_bytes
        self.kinds = dict(kinds or {})
        self.gated = False
        self.private = False
        self.disabled = False
        self.readers = set()
        self.plain_redirect = False
        self.commits = {}
        self.branches = {}
        self.tags = {}
        self.converts = {}
        self.pull_requests = {}

    def commit(self, files, branch="main", parent=None):
        """Makes a new commit, to which `branch` then points. Returns its id.

        `files`: a directory, or a dict of path -> bytes, path of a file on disk, or None to remove a file. A dict
        changes the commit `parent` (default: the branch's), and a directory replaces everything. A branch may be
        `refs/pr/N`.
        """
        base = parent or self.find_ref(branch)
        kept = dict(self.commits[base].files) if base and isinstance(files, dict) else {}
        if not isinstance(files, dict):
            files = {path: os.path.join(files, path) for path in files_below(files)}
        for path, source in files.items():
            kept.pop(path, None)
            if source is not None:
                content = Content(source)
                kept[path] = File(self.id, path, content, self.kind_of(path, content.size))
        made = Commit(self.id, len(self.commits), kept)
        self.commits[made.sha] = made
        self.set_ref(branch, made.sha)
        return made.sha

    def kind_of(self, path, size):
        for pattern, kind in self.kinds.items():
            if fnmatch.fnmatchcase(path, pattern):
                return kind
        large = any(fnmatch.fnmatchcase(path, pattern) for pattern in LARGE_PATTERNS) or size >= self.large_bytes
        return XET if large else PLAIN

    def set_ref(self, name, sha):
        """Points a branch, `refs/pr/N` or `refs/convert/NAME` to a commit."""
        if name.startswith("refs/pr/"):
            self.pull_requests[name.removeprefix("refs/pr/")] = sha
        elif name.startswith("refs/convert/"):
            self.converts[name.removeprefix("refs/convert/")] = sha
        else:
            self.branches[name] = sha

    def tag(self, name, sha=None):
        self.tags[name] = sha or self.branches["main"]

    def find_ref(self, name):
        if name.startswith("refs/pr/"):
            return self.pull_requests.get(name.removeprefix("refs/pr/"))
        if name.startswith("refs/convert/"):
            return self.converts.get(name.removeprefix("refs/convert/"))
        name = name.removeprefix("refs/heads/").removeprefix("refs/tags/")
        return self.branches.get(name) or self.tags.get(name)

    def resolve(self, revision):
        """Returns the commit of a branch, tag, reference or id, or None."""
        return self.commits.get(revision) or self.commits.get(self.find_ref(revision))

    def refs(self, pull_requests=False):
        def listed(kind, prefix, refs):
            return [{"name": prefix + name if kind == "pr" else name, "ref": f"refs/{kind}/{name}", "targetCommit": sha}
                    for name, sha in sorted(refs.items())]

        found = {"branches": listed("heads", "", self.branches), "tags": listed("tags", "", self.tags),
                 "converts": listed("convert", "", self.converts)}
        if pull_requests:
            found["pullRequests"] = listed("pr", "refs/pr/", self.pull_requests)
        return found


def files_below(directory):
    found = []
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), directory).replace(os.sep, "/")
            found.append(path)
    return sorted(found)
