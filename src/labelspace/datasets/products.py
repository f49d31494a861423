"""A generated product catalogue: titles with their path in a five-level taxonomy and their brand.

Good for demonstrations and tests where no real catalogue is at hand: titles read like those of a
shop, with synonyms, left-out words and typos; a few labels are on many products and many on few.
Record i depends on the seed and i alone, on any machine.
"""

from __future__ import annotations

import json
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from labelspace._core.streams import replacing
from labelspace.datasets import product_words as words
from labelspace.errors import DataError, ParameterError

Item = TypeVar("Item")

SEPARATOR = " > "
LAYOUTS = ("{brand} {head}", "{head} by {brand}", "{brand} {model} {head}", "{head} ({brand})")
DETAIL_MARKS = (", ", " - ", " ")

NO_BRAND = 0.25
BRAND_LEFT_OUT = 0.1  # of the title, though it is a label
STOPS_EARLY = 0.2  # a path that ends above the fifth level
MISFILED = 0.02  # a product on a shelf where it does not belong
WORD_LEFT_OUT = 0.25
SYNONYM = 0.5
SHUFFLED = 0.1
LOWER_CASE = 0.15
TYPO = 0.06  # a word


@dataclass(frozen=True)
class ProductType:
    """A node on the third level and what is needed to go below it."""

    path: tuple[str, str, str]
    nouns: tuple[str, ...]
    kinds: tuple[str, ...]
    styles: tuple[str, ...]
    sizes: tuple[str, ...]
    extras: tuple[str, ...]
    brands: tuple[str, ...]


class Dice:
    """Chances from `Random.random` alone, the one method that Python promises never to change."""

    def __init__(self, seed: int, number: int) -> None:
        self._random = Random(f"{seed}/{number}").random

    def falls(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self._random() * len(items))]

    def pick_early(self, items: Sequence[Item], power: int = 1) -> Item:
        """The item of rank r in proportion to r ** -power."""
        sums = _power_sums(len(items), power)
        return items[bisect(sums, self._random() * sums[-1], hi=len(items) - 1)]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        rest = list(items)
        return [rest.pop(int(self._random() * len(rest))) for _ in items]


def product_records(n: int, *, seed: int = 0, start: int = 0) -> Iterator[dict[str, Any]]:
    """`n` products from number `start` on: id, text, labels, path and brand (or "")."""
    if n < 0 or start < 0:
        raise ParameterError(f"n and start must not be negative, but are {n} and {start}")
    for number in range(start, start + n):
        yield _record(number, Dice(seed, number))


def write_catalogue(
    directory: str | Path, *, train: int = 8000, test: int = 2000, seed: int = 0
) -> tuple[Path, Path, Path]:
    """Write train.jsonl, test.jsonl and hierarchy.tsv (child TAB parent); return their paths."""
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
        mark + dice.pick_early(_listed(words.COLOURS)),
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
    """Mostly the word itself; else two letters change places, or one is lost or doubled."""
    if len(word) < 5 or not word.isalpha() or not dice.falls(TYPO):
        return word
    at = dice.pick(range(1, len(word) - 1))
    left, here, following, rest = word[:at], word[at], word[at + 1], word[at + 2 :]
    return left + dice.pick((following + here, following, here + here + following)) + rest


def _listed(text: str, separator: str = ", ") -> tuple[str, ...]:
    return tuple(text.split(separator))


@cache
def _power_sums(n: int, power: int) -> tuple[float, ...]:
    # Of whole powers: their bits are the same on every machine.
    return tuple(accumulate(1 / rank**power for rank in range(1, n + 1)))


@cache
def _catalogue() -> tuple[tuple[tuple[ProductType, ...], ...], ...]:
    """All product types, by department and category."""
    return tuple(
        tuple(
            _product_types(number, name, category_name)
            for category_name in words.DEPARTMENTS[name].categories
        )
        for number, name in enumerate(words.DEPARTMENTS)
    )


def _product_types(number: int, department: str, category: str) -> tuple[ProductType, ...]:
    shared = words.DEPARTMENTS[department]
    own = shared.categories[category]
    types = []
    for place, entry in enumerate(_listed(own.types, "; ")):
        label, nouns = entry.split(": ")
        types.append(
            ProductType(
                path=(department, category, label),
                nouns=_listed(nouns),
                # Each type has a favourite kind and style of its own.
                kinds=_rotated(_listed(own.kinds), place),
                styles=_rotated(_listed(shared.styles), place),
                sizes=_listed(shared.sizes),
                extras=_listed(shared.extras),
                brands=_brands(number),
            )
        )
    return tuple(types)


def _rotated(items: tuple[str, ...], by: int) -> tuple[str, ...]:
    return items[by % len(items) :] + items[: by % len(items)]


@cache
def _brands(department: int) -> tuple[str, ...]:
    """Every brand is at home in one department; every other one sells in a second."""
    count = len(words.DEPARTMENTS)
    names = [
        *(a + b for b in _listed(words.BRAND_ENDINGS) for a in _listed(words.BRAND_STEMS)),
        *(
            f"{a} {b}"
            for b in _listed(words.BRAND_SECOND_WORDS)
            for a in _listed(words.BRAND_FIRST_WORDS)
        ),
    ]
    return tuple(
        name
        for i, name in enumerate(names)
        if i % count == department or (i % 2 == 0 and i // count % count == department)
    )
