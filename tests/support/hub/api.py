"""The Hub's own requests: model info, listings, references, the resolver, and their refusals."""

import json
import re
import urllib.parse

from hub import answers
from hub.answers import as_json, refusal
from hub.wire import Response

COMMIT = re.compile(r"[0-9a-f]{40}\Z")
VERBS = ("revision", "tree", "paths-info", "refs", "auth-check", "xet-read-token")
GATED = "Access to model {0} is restricted and you are not in the authorized list. Visit {1}/{0} to ask for access."


class Refused(Exception):
    """An answer that ends the request."""

    def __init__(self, response):
        super().__init__(response.status)
        self.response = response


class Caller:
    """The caller and the requested repository. Finds it, or refuses like the Hub."""

    def __init__(self, hub, request):
        self.hub = hub
        self.token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.token and self.token not in hub.tokens:
            raise Refused(refusal(401, "Invalid credentials in Authorization header"))

    def repo(self, repo_id):
        repo = self.hub.repos.get(repo_id)
        if repo is None or (repo.private and self.token not in repo.readers):
            code = None if self.hub.bare_401 and not self.token else "RepoNotFound"
            raise Refused(refusal(404, "Repository not found", code) if self.token
                          else refusal(401, "Invalid username or password.", code))
        if repo.disabled:
            raise Refused(refusal(403, "Access to this resource is disabled."))
        return repo

    def may_read(self, repo):
        if repo.gated and self.token not in repo.readers:
            raise Refused(refusal(403 if self.token else 401, GATED.format(repo.id, self.hub.endpoint), "GatedRepo"))

    def commit(self, repo, revision):
        commit = repo.resolve(revision)
        if commit is None:
            raise Refused(refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound"))
        return commit


def answer(hub, request, path, entry, fault):
    try:
        if path.startswith("/api/resolve-cache/models/"):
            return resolved_plain(hub, request, path, entry, fault)
        if path == "/api/models":
            return as_json(search(hub, request))
        if path.startswith("/api/models/"):
            return models(hub, request, path.removeprefix("/api/models/"), entry)
        if "/resolve/" in path:
            return resolve(hub, request, path[1:], entry, fault)
        if path == "/api/whoami-v2":
            return whoami(hub, request)
    except Refused as refused:
        return refused.response
    hub.requests.violate("unknown_request", f"{request.method} {request.path}")
    return refusal(404, "Sorry, we can't find the page you are looking for.")


def search(hub, request):
    """Returns the repositories that the caller may see, by owner or with a text in the name."""
    caller = Caller(hub, request)
    query = dict(urllib.parse.parse_qsl(request.query))
    found = [repo for repo in hub.repos.values() if not repo.private or caller.token in repo.readers]
    found = [repo for repo in found if repo.id.startswith(query.get("author", "") + "/" if "author" in query else "")]
    found = [repo for repo in found if query.get("search", "").lower() in repo.id.lower()]
    return [{"_id": "0" * 24, "id": repo.id, "modelId": repo.id, "private": repo.private}
            for repo in found[:int(query.get("limit", 1000))]]


def whoami(hub, request):
    caller = Caller(hub, request)
    if not caller.token:
        return refusal(401, "Invalid username or password.")
    return as_json({"type": "user", "name": hub.tokens[caller.token], "orgs": [], "auth": {"accessToken": {"role": "read"}}})


def split_repo(hub, segments, verbs):
    """Returns (id, the rest). A repository has one or two segments before a verb or the end."""
    count = 1 if len(segments) < 2 or (segments[1] in verbs and "/".join(segments[:2]) not in hub.repos) else 2
    return "/".join(segments[:count]), segments[count:]


def moved(hub, request, repo_id):
    """Returns the redirect for a repository that has another name now."""
    new = hub.renamed.get(repo_id)
    if new is None:
        return None
    location = request.target.replace(f"/{repo_id}", f"/{new}", 1)
    return Response(307, {"Location": location}, f"Temporary Redirect. Redirecting to {location}".encode(), "text/plain")


def note_name(hub, repo, revision, entry):
    """Notes a revision that isn't a commit. It may be requested once, since a branch may move between two requests."""
    if COMMIT.match(revision):
        return
    key = (repo.id, revision)
    if key in hub.asked_by_name:
        hub.requests.violate("branch_again", f"{entry.method} {entry.path} after {hub.asked_by_name[key]}")
    hub.asked_by_name.setdefault(key, entry.path)


def models(hub, request, path, entry):
    repo_id, rest = split_repo(hub, path.split("/"), VERBS)
    redirect = moved(hub, request, repo_id)
    if redirect:
        return redirect
    caller = Caller(hub, request)
    repo = caller.repo(repo_id)
    query = dict(urllib.parse.parse_qsl(request.query, keep_blank_values=True))
    verb = rest[0] if rest else "revision"
    if verb == "refs":
        return as_json(repo.refs("include_prs" in query))
    if verb == "auth-check":
        caller.may_read(repo)
        return as_json({})
    revision = urllib.parse.unquote(rest[1]) if len(rest) > 1 else "main"
    commit = caller.commit(repo, revision)
    note_name(hub, repo, revision, entry)
    if verb == "revision":
        return info(repo, commit, query)
    if verb == "tree":
        return tree(hub, request, commit, rest, query)
    if verb == "paths-info" and request.method == "POST":
        return paths_info(request, commit)
    hub.requests.violate("unknown_request", f"{request.method} {request.path}")
    return refusal(404, "no such page")


def info(repo, commit, query):
    blobs = query.get("blobs", "").lower() in ("true", "1")
    return as_json({"_id": commit.sha[:24], "id": repo.id, "modelId": repo.id, "sha": commit.sha, "private": repo.private,
                    "gated": repo.gated, "disabled": repo.disabled, "tags": ["safetensors"],
                    "library_name": "transformers", "downloads": 0, "likes": 0, "usedStorage": 0,
                    "siblings": [file.sibling(blobs) for file in commit.files.values()]})


def listing(commit, folder, recursive, expand):
    """Returns entries below a folder in the order of their paths, or None if the folder doesn't exist."""
    prefix = folder + "/" if folder else ""
    if folder and folder not in commit.folders():
        return None
    entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in commit.folders()]
    entries += [file.tree_entry(expand) for file in commit.files.values()]
    entries = [entry for entry in entries if entry["path"].startswith(prefix)]
    if not recursive:
        entries = [entry for entry in entries if "/" not in entry["path"][len(prefix):]]
    return sorted(entries, key=lambda entry: entry["path"])


def tree(hub, request, commit, rest, query):
    folder = urllib.parse.unquote("/".join(rest[2:]))
    is_true = {name: query.get(name, "").lower() in ("true", "1") for name in ("recursive", "expand")}
    entries = listing(commit, folder, is_true["recursive"], is_true["expand"])
    if entries is None:
        return refusal(404, f"{folder} does not exist on \"{commit.sha}\"", "EntryNotFound", {"X-Repo-Commit": commit.sha})
    begin = int(query.get("cursor", "at=0").removeprefix("at="))
    page = entries[begin:begin + hub.page_size]
    headers = {}
    if begin + hub.page_size < len(entries):
        query["cursor"] = f"at={begin + hub.page_size}"
        base = hub.link_endpoint or hub.endpoint
        path = request.path.removeprefix(hub.prefix)
        headers["Link"] = f'<{base}{path}?{urllib.parse.urlencode(query)}>; rel="next"'
    return as_json(page, headers=headers)


def paths_info(request, commit):
    if "json" in request.headers.get("content-type", ""):
        asked = json.loads(request.body)
        paths, expand = asked["paths"], bool(asked.get("expand"))
    else:
        form = urllib.parse.parse_qs(request.body.decode())
        paths, expand = form.get("paths", []), form.get("expand", [""])[0].lower() == "true"
    known = {entry["path"]: entry for entry in listing(commit, "", True, expand)}
    return as_json([known[path] for path in paths if path in known])


def resolve(hub, request, path, entry, fault):
    segments = path.split("/")
    repo_id, rest = split_repo(hub, segments, ("resolve",))
    if len(rest) < 3 or rest[0] != "resolve" or request.method not in ("GET", "HEAD"):
        hub.requests.violate("unknown_request", f"{request.method} {request.path}")
        return refusal(404, "no such page")
    redirect = moved(hub, request, repo_id)
    if redirect:
        return redirect
    caller = Caller(hub, request)
    repo = caller.repo(repo_id)
    caller.may_read(repo)
    revision = urllib.parse.unquote(rest[1])
    commit = caller.commit(repo, revision)
    note_name(hub, repo, revision, entry)
    file = file_of(commit, urllib.parse.unquote("/".join(rest[2:])))
    entry.file = file.name
    if not answers.is_plain(file):
        hub.count_call(file)
        return answers.stored(hub, request, file, commit, fault)
    if not repo.plain_redirect:
        return answers.plain(request, file, commit, fault)
    quoted = "/".join(urllib.parse.quote(part, safe="") for part in file.path.split("/"))
    location = f"{hub.prefix}/api/resolve-cache/models/{repo.id}/{commit.sha}/{quoted}?download=true&etag=%22{file.oid}%22"
    return Response(307, {"Location": location, "X-Repo-Commit": commit.sha}, b"Temporary Redirect", "text/plain")


def resolved_plain(hub, request, path, entry, fault):
    """Returns a plain file by its commit, the target of the resolver's redirect. The query may be missing."""
    segments = path.removeprefix("/api/resolve-cache/models/").split("/")
    count = next((at for at, part in enumerate(segments) if COMMIT.match(part)), 0)
    caller = Caller(hub, request)
    repo = caller.repo("/".join(segments[:count]))
    caller.may_read(repo)
    commit = caller.commit(repo, segments[count])
    file = file_of(commit, urllib.parse.unquote("/".join(segments[count + 1:])))
    entry.file = file.name
    return answers.plain(request, file, commit, fault)


def file_of(commit, path):
    if path not in commit.files:
        raise Refused(refusal(404, f"Entry not found: {path}", "EntryNotFound", {"X-Repo-Commit": commit.sha}))
    return commit.files[path]
