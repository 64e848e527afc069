"""Folds runs of numbers in tensor names: "model.layers.{0..47}.mlp.experts.{0..127}.up_proj.weight"."""

import itertools
import re

NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
RANGES = re.compile(r"\{([0-9.,]+)\}")


def ranges_of(numbers):
    """Returns "0..2,5" for [0, 1, 2, 5]."""
    out = []
    for _, run in itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in run]
        out.append(str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}")
    return ",".join(out)


def numbers_of(text):
    """Returns the inverse of ranges_of."""
    for part in text.split(","):
        begin, _, end = part.partition("..")
        yield from range(int(begin), int(end or begin) + 1)


def products(tuples):
    """Returns tuples of numbers as products of sets: lists of one set for each place."""
    if tuples == {()}:
        return [()]
    by_rest = {}
    for first in sorted({numbers[0] for numbers in tuples}):
        rest = frozenset(numbers[1:] for numbers in tuples if numbers[0] == first)
        by_rest.setdefault(rest, []).append(first)
    return [(firsts, *more) for rest, firsts in by_rest.items() for more in products(set(rest))]


def fold(names):
    """Returns patterns that unfold to exactly these names."""
    by_template = {}
    for name in names:
        numbers = tuple(int(number) for number in NUMBER.findall(name))
        by_template.setdefault(NUMBER.sub("{}", name), set()).add(numbers)
    out = []
    for template in sorted(by_template):
        for sets in products(by_template[template]):
            out.append(template.format(*("{" + ranges_of(numbers) + "}" for numbers in sets)))
    return out


def unfold(patterns):
    """Returns every name of the patterns, in arbitrary order."""
    out = []
    for pattern in patterns:
        pieces = RANGES.split(pattern)
        choices = [list(numbers_of(piece)) if i % 2 else [piece] for i, piece in enumerate(pieces)]
        out.extend("".join(str(piece) for piece in name) for name in itertools.product(*choices))
    return out
