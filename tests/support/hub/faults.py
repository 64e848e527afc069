"""Scripted faults: a list for each (listener, method, path), one for each request, then normal service.

A fault is a text of parts joined by `+`. All of them apply to one answer:

    ok               nothing: lets a request pass
    status:N         this status, with a JSON error           header:NAME=VALUE   replaces or adds a header
    body:TEXT        this body                                noheader:NAME       takes one away
    html             200 with a page of a portal              redirect:URL        302 there
    rate:R,T         RateLimit says R left, T seconds to go; 429 if R is 0
    retryafter:N     503 with Retry-After: N seconds, or the date that is N seconds away if written `date:N`
    expire           403 from now on, until the file is resolved again (data listener)
    norange          the whole file with 200                  wrongrange[:N]      a range that is shifted by N (1)
    wrongtotal[:N]   a total that is N (1) too large          etag:X              another ETag
    gzip             the body with Content-Encoding: gzip     flip:K              byte K of the body is another one
    cut:K            closes after K bytes of the body         reset:K             the same with a reset
    short:K          says and sends K bytes less than asked   stall:K:T           pauses T seconds after K bytes
    hold:K:T         pauses T seconds before byte K of the file, in whichever response it is
    slow:R           R bytes a second                         empty               closes without an answer
    hang:T           waits T seconds before it answers        refuse:T            closes the listener for T seconds
"""

import fnmatch
import threading
import urllib.parse

# Parts that can be split into numbers, and how many.
NUMBERS = {"status": (1, 1), "flip": (1, 1), "cut": (1, 1), "reset": (1, 1), "short": (1, 1), "stall": (2, 2), "hold": (2, 2),
           "slow": (1, 1), "hang": (1, 1), "refuse": (1, 1), "wrongrange": (0, 1), "wrongtotal": (0, 1)}
WORDS = ("ok", "html", "expire", "norange", "gzip", "empty")
TEXTS = ("header", "noheader", "body", "redirect", "rate", "retryafter", "etag")


class Fault:
    """One parsed fault. Members are the parts, None or a tuple of numbers, a text, or a list of texts (headers)."""

    def __init__(self, text="ok"):
        self.text = text
        self.parts = {}
        for part in text.split("+"):
            name, colon, rest = part.partition(":")
            if name in NUMBERS:
                numbers = tuple(float(number) for number in rest.split(":")) if colon else ()
                least, most = NUMBERS[name]
                if not least <= len(numbers) <= most:
                    raise ValueError(f"{part!r} has {len(numbers)} numbers")
                self.parts[name] = numbers
            elif name in TEXTS:
                self.parts.setdefault(name, []).append(rest)
            elif name in WORDS and not colon:
                self.parts[name] = True
            else:
                raise ValueError(f"{part!r} is no fault")

    def __contains__(self, name):
        return name in self.parts

    def number(self, name, default=None, at=0):
        numbers = self.parts.get(name)
        return default if not numbers else numbers[at]

    def texts(self, name):
        return self.parts.get(name, [])


class Rule:
    def __init__(self, listener, method, pattern, faults, repeat):
        self.listener, self.method, self.pattern = listener, method, pattern
        self.faults = [Fault(fault) if isinstance(fault, str) else fault for fault in faults]
        self.repeat = repeat
        self.used = 0

    def matches(self, listener, method, names):
        return (self.listener in ("*", listener) and self.method in ("*", method)
                and any(fnmatch.fnmatchcase(name, self.pattern) for name in names))

    def take(self):
        """Returns the next fault, or None if all have happened."""
        if not self.faults or (self.used >= len(self.faults) and not self.repeat):
            return None
        fault = self.faults[self.used % len(self.faults)]
        self.used += 1
        return fault


class Script:
    """Rules. The first one that matches and has a fault left applies."""

    def __init__(self):
        self._lock = threading.Lock()
        self._rules = []

    def add(self, listener, method, pattern, faults, repeat=False):
        rule = Rule(listener, method, pattern, faults, repeat)
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self):
        with self._lock:
            self._rules.clear()

    def left(self):
        """Returns how many faults haven't happened."""
        with self._lock:
            return sum(max(0, len(rule.faults) - rule.used) for rule in self._rules)

    def take(self, listener, method, target, file_name):
        path = target.partition("?")[0]
        names = {path, urllib.parse.unquote(path)} | ({file_name} if file_name else set())
        with self._lock:
            for rule in self._rules:
                if rule.matches(listener, method, names):
                    fault = rule.take()
                    if fault is not None:
                        return fault
        return Fault()
