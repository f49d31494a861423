"""Rebuild the set `flipkart`: predict category path and brand of a product from its name.

    python benchmarks/sets/flipkart.py data/flipkart --source flipkart_com-ecommerce_sample.csv

The source is PromptCloud's sample of 20,000 products. It has to be downloaded by hand (Kaggle asks
for an account): https://www.kaggle.com/datasets/PromptCloudHQ/flipkart-products
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from common import Record, is_test, parser, write_split

COLUMNS = ("uniq_id", "product_name", "product_category_tree", "brand")


def category_path(tree: str, name: str) -> list[str]:
    """Return the levels of a category tree such as `["A >> B >> Product name"]`.

    The last level often is the name of the product, cut off with dots where it is long; that one
    is left out.
    """
    try:
        text = json.loads(tree)[0]
    except (ValueError, IndexError):
        text = tree.strip('[]"')
    levels = [level.strip() for level in text.split(">>") if level.strip()]
    if levels:
        last = levels[-1].removesuffix("...").strip().lower()
        if levels[-1].endswith("...") or last == name.strip().lower():
            levels.pop()
    return levels


def split_key(name: str) -> str:
    """Return the letters of a name: variants that differ in numbers stay on one side."""
    return re.sub(r"[^a-z]+", " ", name.lower()).strip()


def build(rows: Iterable[Mapping[str, str]], out: Path) -> None:
    records: list[Record] = []
    in_test: list[bool] = []
    edges: dict[tuple[str, str], None] = {}
    for row in rows:
        name, brand = row["product_name"].strip(), (row["brand"] or "").strip()
        path = category_path(row["product_category_tree"], name)
        if not path:
            continue
        prefixes = [" > ".join(path[: depth + 1]) for depth in range(len(path))]
        edges.update(dict.fromkeys(zip(prefixes[1:], prefixes, strict=False)))
        labels = prefixes + ([f"brand: {brand}"] if brand else [])
        records.append(
            {"id": row["uniq_id"], "text": name, "labels": labels, "path": path, "brand": brand}
        )
        in_test.append(is_test(split_key(name), 10))
    write_split(out, records, in_test, sorted(edges))


def main() -> None:
    options = parser(__doc__, "the CSV file, which cannot be downloaded by a script").parse_args()
    if options.source is None:
        raise SystemExit("download the CSV file by hand and give it with --source")
    with open(options.source, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if missing := set(COLUMNS) - set(reader.fieldnames or ()):
            raise SystemExit(f"{options.source}: no column {', '.join(sorted(missing))}")
        build(reader, options.out)


if __name__ == "__main__":
    main()
