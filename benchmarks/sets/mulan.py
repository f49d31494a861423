"""Rebuild the sets `bibtex` and `delicious` from MULAN's ARFF files.

    python benchmarks/sets/mulan.py bibtex data/bibtex [--source FOLDER]

The source is a folder with NAME-train.arff, NAME-test.arff and NAME.xml. MULAN's own split is kept.
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

from common import fetch, write_gzip, write_lines

URL = "https://raw.githubusercontent.com/tsoumakas/mulan/master/data/multi-label/{name}/"
FILES = ("{name}-train.arff", "{name}-test.arff", "{name}.xml")


def label_names(xml: str) -> set[str]:
    """Return the names of all labels in a MULAN header file."""
    return {
        node.attrib["name"] for node in ElementTree.fromstring(xml).iter() if "name" in node.attrib
    }


def attributes(lines: Iterable[str]) -> list[str]:
    """Return the names of the attributes of an ARFF file, in order."""
    names = []
    for line in lines:
        if line.lower().startswith("@attribute"):
            rest = line.split(None, 1)[1].strip()
            names.append(rest[1:].split(rest[0])[0] if rest[0] in "'\"" else rest.split()[0])
        elif line.lower().startswith("@data"):
            break
    return names


def rows(lines: Iterable[str]) -> Iterable[dict[int, str]]:
    """Yield the non-zero columns of each example, from sparse or dense rows."""
    data = False
    for line in lines:
        line = line.strip()
        if data and line and not line.startswith("%"):
            if line.startswith("{"):
                cells = (cell.split() for cell in line.strip("{}").split(",") if cell.strip())
                yield {int(column): value for column, value in cells if _is_set(value)}
            else:
                values = enumerate(value.strip() for value in line.split(","))
                yield {column: value for column, value in values if _is_set(value)}
        data = data or line.lower().startswith("@data")


def to_xc(arff: str, labels: set[str]) -> tuple[str, list[str], list[str]]:
    """Return XC text, the names of the features and the names of the labels."""
    lines = arff.splitlines()
    names = attributes(lines)
    features = [column for column, name in enumerate(names) if name not in labels]
    label_columns = [column for column, name in enumerate(names) if name in labels]
    feature_number = {column: number for number, column in enumerate(features)}
    label_number = {column: number for number, column in enumerate(label_columns)}
    text = []
    for row in rows(lines):
        carried = ",".join(str(label_number[c]) for c in sorted(row) if c in label_number)
        values = [f"{feature_number[c]}:{row[c]}" for c in sorted(row) if c in feature_number]
        text.append(" ".join([carried, *values]) + "\n")
    header = f"{len(text)} {len(features)} {len(label_columns)}\n"
    return (
        header + "".join(text),
        [names[column] for column in features],
        [names[column] for column in label_columns],
    )


def build(folder: Path, name: str, out: Path) -> None:
    labels = label_names((folder / f"{name}.xml").read_text(encoding="utf-8"))
    for part in ("train", "test"):
        arff = (folder / f"{name}-{part}.arff").read_text(encoding="utf-8")
        text, features, names = to_xc(arff, labels)
        write_gzip(out / f"{part}.txt.gz", text)
        write_lines(out / "features.txt", features)
        write_lines(out / "labels.txt", names)


def _is_set(value: str) -> bool:
    try:
        return float(value) != 0
    except ValueError:
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=["bibtex", "delicious"])
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--source", type=Path, help="folder with MULAN's files; else downloaded")
    options = parser.parse_args()
    folder = options.source
    if folder is None:
        folder = options.out / "download"
        for file in FILES:
            fetch((URL + file).format(name=options.name), folder)
    build(folder, options.name, options.out)


if __name__ == "__main__":
    main()
