"""Answers with bytes, refusals, and those that a fault puts in place of the right one."""

import email.utils
import json

from hub.content import PLAIN
from hub.wire import Response

WINDOW_SECONDS = 300
QUOTAS = {"api": 1000, "resolvers": 5000, "pages": 200}
XML = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'
PORTAL = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Please sign in to the network.</body></html>"
BINARY = "application/octet-stream"


def as_json(data, status=200, headers=None):
    return Response(status, headers, json.dumps(data).encode(), "application/json; charset=utf-8")


def refusal(status, message, code=None, headers=None):
    told = dict(headers or {})
    told["X-Error-Message"] = message
    if code:
        told["X-Error-Code"] = code
    return as_json({"error": message}, status, told)


def ranged(request, file, fault, headers):
    """Returns 206 or 200 of a file for the request's range, changed by the fault."""
    size = file.size
    headers = {"Accept-Ranges": "bytes", "Content-Type": BINARY, **headers}
    asked = request.range(size)
    if asked is None:
        return Response(416, {**headers, "Content-Range": f"bytes */{size}"})
    begin, end = asked
    total = size
    if "norange" in fault or not request.headers.get("range"):
        return Response(200, headers, (file.content, 0, size))
    if "wrongrange" in fault:
        shift = int(fault.number("wrongrange", 1))
        length = end - begin
        begin = min(max(0, begin + shift), size)
        end = min(begin + length, size)
    if "wrongtotal" in fault:
        total += int(fault.number("wrongtotal", 1))
    headers["Content-Range"] = f"bytes {begin}-{end - 1}/{total}"
    return Response(206, headers, (file.content, begin, end))


def data(hub, request, file, fault):
    """Returns a data host's answer."""
    if request.method not in ("GET", "HEAD"):
        return refusal(405, "method not allowed")
    if file is None:
        return xml(404, "NoSuchKey", "The specified key does not exist.")
    code = hub.refusal(request, file)
    if code:
        return xml(403, code, "Request has expired" if code == "AccessDenied" else "The signature is wrong")
    if hub.most_unranged_bytes is not None and file.size > hub.most_unranged_bytes and not request.headers.get("range"):
        return xml(400, "EntityTooLarge", "The object is too large for this path.")
    headers = {"ETag": f'"{file.data_etag}"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
    for etag in fault.texts("etag"):
        headers["ETag"] = f'"{etag}"'
    return ranged(request, file, fault, headers)


def plain(request, file, commit, fault):
    """Returns the hub's own answer for a plain file's bytes."""
    etag = (fault.texts("etag") or [file.oid])[0]
    headers = {"X-Repo-Commit": commit.sha, "ETag": f'"{etag}"',
               "Content-Disposition": f"inline; filename*=UTF-8''{ascii_name(file)}"}
    if request.headers.get("if-none-match", "").removeprefix("W/") == headers["ETag"]:
        return Response(304, headers)
    if request.headers.get("range"):
        return ranged(request, file, fault, headers)
    response = ranged(request, file, fault, headers)
    response.headers["Content-Type"] = "text/plain; charset=utf-8"
    return response


def stored(hub, request, file, commit, fault):
    """Returns the resolver's answer for a file whose bytes are elsewhere."""
    sha256 = (fault.texts("etag") or [file.sha256])[0]
    headers = {"X-Repo-Commit": commit.sha, "X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": str(file.size),
               "Accept-Ranges": "bytes"}
    if file.xet_hash:
        token = f"{hub.endpoint}/api/models/{file.repo_id}/xet-read-token/{commit.sha}"
        info = f"{hub.data.origin}/v1/reconstructions/{file.xet_hash}"
        headers["X-Xet-Hash"] = file.xet_hash
        headers["Link"] = f'<{token}>; rel="xet-auth", <{info}>; rel="xet-reconstruction-info"'
        if "application/vnd.xet-fileinfo+json" in request.headers.get("accept", ""):
            return Response(200, headers, json.dumps({"hash": file.xet_hash}).encode(),
                            "application/vnd.xet-fileinfo+json")
    headers["Location"] = hub.sign(file)
    return Response(302, headers, b"Found. Redirecting to another host", "text/plain; charset=utf-8")


def xml(status, code, message):
    return Response(status, {}, XML.format(code=code, message=message).encode(), "application/xml")


def ascii_name(file):
    return file.path.rsplit("/", 1)[-1].encode("ascii", "replace").decode().replace('"', "_")


def replaced(hub, fault, request):
    """Returns the answer that a fault gives by itself, or None."""
    body = [text.encode() for text in fault.texts("body")]
    for url in fault.texts("redirect"):
        url = url or hub.hub.origin + request.target  # a loop
        return Response(302, {"Location": url}, b"")
    if "html" in fault:
        return Response(200, {}, PORTAL, "text/html; charset=utf-8")
    for text in fault.texts("retryafter"):
        value = text
        if text.startswith("date:"):
            value = email.utils.formatdate(hub.now() + float(text.removeprefix("date:")), usegmt=True)
        return Response(503, {"Retry-After": value}, *(body or [b"busy"]), kind="text/plain")
    for text in fault.texts("rate"):
        left, seconds = text.split(",")
        if int(left) == 0:
            return refusal(429, "We had to rate limit you", headers=rate(bucket_of(request.path), 0, int(seconds)))
    if "status" in fault:
        status = int(fault.number("status"))
        return Response(status, {}, body[0]) if body else refusal(status, f"injected {status}")
    return Response(200, {}, body[0], "text/plain") if body else None


def bucket_of(path):
    return "api" if "/api/" in path else "resolvers" if "/resolve/" in path else "pages"


def rate(bucket, left, seconds):
    return {"RateLimit": f'"{bucket}";r={left};t={seconds}',
            "RateLimit-Policy": f'"fixed window";"{bucket}";q={QUOTAS[bucket]};w={WINDOW_SECONDS}'}


def limit(hub, response, path, fault):
    """Returns the headers that count requests. If a quota is set and spent, the answer becomes 429."""
    bucket = bucket_of(path)
    hub.spent[bucket] = hub.spent.get(bucket, 0) + 1
    quota = hub.quota.get(bucket, QUOTAS[bucket])
    left = max(0, quota - hub.spent[bucket])
    headers = rate(bucket, left, WINDOW_SECONDS)
    for text in fault.texts("rate"):
        headers = rate(bucket, *(int(number) for number in text.split(",")))
    if bucket in hub.quota and hub.spent[bucket] > quota and response.status < 400:
        full = refusal(429, "We had to rate limit you")
        response.status, response.content = full.status, full.content
        response.headers = {"X-Request-Id": response.headers["X-Request-Id"], "Date": response.headers["Date"],
                            **full.headers}
    for name, value in headers.items():
        response.headers.setdefault(name, value)


def is_plain(file):
    return file.kind == PLAIN
