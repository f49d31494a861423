"""A generated product catalogue: titles with their path in a five-level taxonomy and their brand.

For demonstrations and tests without a real catalogue: titles resemble those of a shop, with
synonyms, omitted words and typos; a few labels are on many products and many on few. Record i
depends on the seed and i alone, on any machine.
"""

from __future__ import annotations

import json
import tomllib
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from labelspace._core.streams import replacing
from labelspace.errors import DataError, ParameterError

Item = TypeVar("Item")

SEPARATOR = " > "
LAYOUTS = ("{brand} {head}", "{head} by {brand}", "{brand} {model} {head}", "{head} ({brand})")
DETAIL_MARKS = (", ", " - ", " ")

# Probabilities, per product unless noted.
NO_BRAND = 0.25
BRAND_LEFT_OUT = 0.1  # of the title, though it is a label
STOPS_EARLY = 0.2  # a path that ends above the fifth level
MISFILED = 0.02  # a product with the path of another one
WORD_LEFT_OUT = 0.25
SYNONYM = 0.5
SHUFFLED = 0.1
LOWER_CASE = 0.15
TYPO = 0.06  # per word


@dataclass(frozen=True)
class ProductType:
    """A node on the third level, and the words for the levels below it and for titles."""

    path: tuple[str, str, str]
    nouns: tuple[str, ...]
    kinds: tuple[str, ...]
    styles: tuple[str, ...]
    sizes: tuple[str, ...]
    extras: tuple[str, ...]
    brands: tuple[str, ...]


class Dice:
    """Random choices by `Random.random` alone, the one method that Python never changes."""

    def __init__(self, seed: int, number: int) -> None:
        self._random = Random(f"{seed}/{number}").random

    def falls(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of the items, each with the same probability."""
        return items[int(self._random() * len(items))]

    def pick_early(self, items: Sequence[Item], power: int = 1) -> Item:
        """Return one of the items, that of rank r in proportion to r ** -power."""
        sums = _power_sums(len(items), power)
        return items[bisect(sums, self._random() * sums[-1], hi=len(items) - 1)]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """Return the items in random order."""
        rest = list(items)
        return [rest.pop(int(self._random() * len(rest))) for _ in items]


def product_records(n: int, *, seed: int = 0, start: int = 0) -> Iterator[dict[str, Any]]:
    """Yield generated products.

    Parameters
    ----------
    n : int
        Number of products.
    seed : int, default 0
        Another seed gives another catalogue.
    start : int, default 0
        Number of the first product; any range of an endless catalogue can be generated.

    Yields
    ------
    dict
        `id`, `text`, `labels`, `path` and `brand` ("" if there is none).

    Examples
    --------
    >>> record = next(product_records(1, start=42))
    >>> record["id"], record["brand"], len(record["path"])
    ('p0000042', 'Paldette', 5)
    """
    if n < 0 or start < 0:
        raise ParameterError(f"n and start must not be negative, but are {n} and {start}")
    for number in range(start, start + n):
        yield _record(number, Dice(seed, number))


def write_catalogue(
    directory: str | Path, *, train: int = 8000, test: int = 2000, seed: int = 0
) -> tuple[Path, Path, Path]:
    """Write a generated catalogue to a directory, which is created if it does not exist.

    Parameters
    ----------
    directory : str or Path
        Directory for train.jsonl, test.jsonl and hierarchy.tsv (child TAB parent).
    train, test : int
        Number of products in each set.
    seed : int, default 0
        Another seed gives another catalogue.

    Returns
    -------
    tuple of Path
        The three files.

    Examples
    --------
    >>> import tempfile
    >>> from labelspace.data import read_split
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = write_catalogue(folder, train=50, test=10)
    ...     train, test = read_split(folder)
    >>> len(train), len(test), [file.name for file in files]
    (50, 10, ['train.jsonl', 'test.jsonl', 'hierarchy.tsv'])
    """
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be made: {error.strerror or error}", path=directory) from error
    edges: set[tuple[str, str]] = set()
    names = ("train.jsonl", "test.jsonl", "hierarchy.tsv")
    places = tuple(directory / name for name in names)
    with ExitStack() as drafts:  # the files take their names together, when all are written
        train_file, test_file, edges_file = [drafts.enter_context(replacing(p)) for p in places]
        for file, start, n in ((train_file, 0, train), (test_file, train, test)):
            for record in product_records(n, seed=seed, start=start):
                file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
                edges.update((below, above) for above, below in pairwise(_prefixes(record["path"])))
        edges_file.writelines(f"{child}\t{parent}\n".encode() for child, parent in sorted(edges))
        for file in (train_file, test_file, edges_file):
            file.flush()  # a full disk is found out before the first of them has its name
    return places[0], places[1], places[2]


def _record(number: int, dice: Dice) -> dict[str, Any]:
    product = _any_product(dice)
    kind, style = dice.pick_early(product.kinds, 3), dice.pick_early(product.styles, 4)
    label = product.path[-1]
    path = [*product.path, f"{kind} {label}", f"{style} {kind} {label}"]
    depth = dice.pick((2, 3, 4)) if dice.falls(STOPS_EARLY) else len(path)
    brand = "" if dice.falls(NO_BRAND) else dice.pick_early(product.brands)
    text = _title(dice, product, [style, kind][len(path) - depth :], brand)
    path = list(_any_product(dice).path) if dice.falls(MISFILED) else path[:depth]
    labels = [*_prefixes(path), *([f"brand: {brand}"] if brand else [])]
    return {"id": f"p{number:07d}", "text": text, "labels": labels, "path": path, "brand": brand}


def _any_product(dice: Dice) -> ProductType:
    department = dice.pick_early(_catalogue())
    return dice.pick_early(dice.pick_early(department), 2)


def _prefixes(path: Sequence[str]) -> list[str]:
    return [SEPARATOR.join(path[: end + 1]) for end in range(len(path))]


def _title(dice: Dice, product: ProductType, modifiers: list[str], brand: str) -> str:
    head = [word for word in modifiers if not dice.falls(WORD_LEFT_OUT)]
    head.append(dice.pick(product.nouns) if dice.falls(SYNONYM) else product.nouns[0])
    if dice.falls(SHUFFLED):
        head = dice.shuffled(head)
    title = " ".join(word[:1].upper() + word[1:] for word in " ".join(head).split())
    model = _model_number(dice)
    if brand and not dice.falls(BRAND_LEFT_OUT):
        title = dice.pick_early(LAYOUTS).format(brand=brand, head=title, model=model)
    mark = dice.pick_early(DETAIL_MARKS)
    details = [
        mark + dice.pick_early(_words()["colours"]),
        mark + dice.pick(product.sizes),
        " with " + dice.pick(product.extras),
    ]
    if model not in title:
        details.append(mark + model)
    title += "".join(dice.shuffled(details)[: dice.pick((0, 1, 1, 2, 2, 3))])
    title = " ".join(_mistyped(dice, word) for word in title.split(" "))
    return title.lower() if dice.falls(LOWER_CASE) else title


def _model_number(dice: Dice) -> str:
    letters = "".join(dice.pick("ABCDEFGHKLMNPRSTVX") for _ in range(2))
    return f"{letters}{dice.pick(('-', ''))}{dice.pick(range(10, 1000))}"


def _mistyped(dice: Dice, word: str) -> str:
    """Return the word, or with a small probability swap two letters, or drop or double one."""
    if len(word) < 5 or not word.isalpha() or not dice.falls(TYPO):
        return word
    at = dice.pick(range(1, len(word) - 1))
    left, here, following, rest = word[:at], word[at], word[at + 1], word[at + 2 :]
    return left + dice.pick((following + here, following, here + here + following)) + rest


@cache
def _words() -> dict[str, Any]:
    """Read the words of the catalogue from the package."""
    text = files("labelspace.datasets").joinpath("product_words.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _power_sums(n: int, power: int) -> tuple[float, ...]:
    # Of whole powers: their bits are the same on every machine.
    return tuple(accumulate(1 / rank**power for rank in range(1, n + 1)))


@cache
def _catalogue() -> tuple[tuple[tuple[ProductType, ...], ...], ...]:
    """Return all product types, by department and category."""
    return tuple(
        tuple(_product_types(number, name, category) for category in department["categories"])
        for number, (name, department) in enumerate(_words()["departments"].items())
    )


def _product_types(number: int, department: str, category: str) -> tuple[ProductType, ...]:
    shared = _words()["departments"][department]
    own = shared["categories"][category]
    return tuple(
        ProductType(
            path=(department, category, label),
            nouns=tuple(nouns),
            # Each type has a most frequent kind and style of its own.
            kinds=_rotated(own["kinds"], place),
            styles=_rotated(shared["styles"], place),
            sizes=tuple(shared["sizes"]),
            extras=tuple(shared["extras"]),
            brands=_brands(number),
        )
        for place, (label, nouns) in enumerate(own["types"].items())
    )


def _rotated(items: Sequence[str], by: int) -> tuple[str, ...]:
    return (*items[by % len(items) :], *items[: by % len(items)])


@cache
def _brands(department: int) -> tuple[str, ...]:
    """Return the brands of a department; every brand has one, and every other one has two."""
    words, count = _words()["brands"], len(_words()["departments"])
    names = [
        *(stem + ending for ending in words["endings"] for stem in words["stems"]),
        *(f"{a} {b}" for b in words["second_words"] for a in words["first_words"]),
    ]
    return tuple(
        name
        for i, name in enumerate(names)
        if i % count == department or (i % 2 == 0 and i // count % count == department)
    )
