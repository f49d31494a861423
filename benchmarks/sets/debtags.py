"""Rebuild the set `debtags`: predict the tags of a Debian package from its description.

    python benchmarks/sets/debtags.py data/debtags [--source FOLDER]

The source is the package index of Debian 12 (bookworm), main, amd64: a folder with Packages and
Translation-en, plain or as .xz or .gz.
"""

from __future__ import annotations

import gzip
import lzma
import re
from collections.abc import Iterator
from pathlib import Path

from common import Record, fetch, is_test, parser, write_split

MIRROR = "https://deb.debian.org/debian/dists/bookworm/main/"
INDEX = ("binary-amd64/Packages.xz", "i18n/Translation-en.xz")
BRACES = re.compile(r"([\w+:-]*)\{([^}]*)\}")  # tags may be written as facet::{one,two}


def paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each paragraph of a control file; continued lines keep their breaks."""
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in paragraph.splitlines():
            if line[:1].isspace():
                fields[name] += "\n" + line[1:]
            elif line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def tags(field: str) -> list[str]:
    """Return the tags of a field `Tag`, sorted."""
    plain = BRACES.sub(
        lambda m: ", ".join(m.group(1) + each.strip() for each in m.group(2).split(",")), field
    )
    return sorted({tag.strip() for tag in plain.split(",") if tag.strip()})


def long_description(field: str) -> str:
    """Return the text after the first line; a line with a dot separates paragraphs."""
    lines = [line.strip() for line in field.split("\n")[1:]]
    return " ".join(" ".join("" if line == "." else line for line in lines).split())


def build(packages: str, translations: str, out: Path) -> None:
    long_texts = {
        fields["Description-md5"]: long_description(fields["Description-en"])
        for fields in paragraphs(translations)
        if "Description-en" in fields
    }
    records: list[Record] = []
    in_test: list[bool] = []
    known: set[str] = set()  # the index lists some packages in two versions
    for fields in paragraphs(packages):
        labels, name = tags(fields.get("Tag", "")), fields["Package"]
        if labels and name not in known:
            known.add(name)
            short = fields["Description"].split("\n")[0]
            text = f"{name}: {short}. {long_texts.get(fields.get('Description-md5', ''), '')}"
            records.append({"id": name, "text": " ".join(text.split()), "labels": labels})
            source = fields.get("Source", name).split()[0]  # may carry a version
            in_test.append(is_test(source, 5))
    used = sorted({label for record in records for label in record["labels"]})
    edges = [(label, label.partition("::")[0]) for label in used if "::" in label]
    write_split(out, records, in_test, edges)


def read_any(folder: Path, name: str) -> str:
    for suffix, opened in (("", open), (".xz", lzma.open), (".gz", gzip.open)):
        path = folder / (name + suffix)
        if path.exists():
            with opened(path, "rt", encoding="utf-8") as file:
                return str(file.read())
    raise SystemExit(f"{folder}: no {name}, {name}.xz or {name}.gz")


def main() -> None:
    options = parser(__doc__, "folder with Packages and Translation-en").parse_args()
    folder = options.source
    if folder is None:
        folder = options.out / "download"
        for path in INDEX:
            fetch(MIRROR + path, folder)
    build(read_any(folder, "Packages"), read_any(folder, "Translation-en"), options.out)


if __name__ == "__main__":
    main()
