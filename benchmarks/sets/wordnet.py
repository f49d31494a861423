"""Rebuild the set `wordnet`: predict all hypernyms of a synset from its words and its gloss.

    python benchmarks/sets/wordnet.py data/wordnet [--source FOLDER_OR_ARCHIVE]

The source is WordNet 3.0: its folder with data.noun and data.verb (Debian's package wordnet-base
installs it as /usr/share/wordnet), or the archive WordNet-3.0.tar.gz.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from common import fetch, is_test, parser, write_split

URL = "https://wordnetcode.princeton.edu/3.0/WordNet-3.0.tar.gz"
FILES = ("data.noun", "data.verb")
HYPERNYMS = ("@", "@i")  # of a class, of an instance


@dataclass(frozen=True)
class Synset:
    key: str  # part of speech and offset, such as n00001930
    words: tuple[str, ...]
    parents: tuple[str, ...]
    gloss: str

    @property
    def name(self) -> str:
        return f"{self.words[0]}.{self.key[0]}.{self.key[1:]}"


def parse(line: str) -> Synset:
    """Read one line of a data file (wndb(5WN))."""
    fields, _, gloss = line.partition("|")
    parts = fields.split()
    offset, part_of_speech, n_words = parts[0], parts[2], int(parts[3], 16)
    words = parts[4 : 4 + 2 * n_words : 2]
    n_pointers = int(parts[4 + 2 * n_words])
    pointers = parts[5 + 2 * n_words : 5 + 2 * n_words + 4 * n_pointers]
    parents = [
        pointers[i + 2] + pointers[i + 1]
        for i in range(0, len(pointers), 4)
        if pointers[i] in HYPERNYMS
    ]
    return Synset(part_of_speech + offset, tuple(words), tuple(parents), gloss.strip())


def read(source: Path) -> Iterator[str]:
    """Yield the lines of the data files of a folder or an archive, without their licence."""
    for file in FILES:
        if source.is_dir():
            text = (source / file).read_text(encoding="utf-8")
        else:
            with tarfile.open(source) as archive:
                member = next(m for m in archive.getmembers() if m.name.endswith(f"dict/{file}"))
                opened = archive.extractfile(member)
                assert opened is not None
                text = opened.read().decode("utf-8")
        yield from (line for line in text.splitlines() if not line.startswith("  "))


def build(lines: Iterable[str], out: Path) -> None:
    synsets = {synset.key: synset for synset in map(parse, lines)}
    ancestors: dict[str, set[str]] = {}

    def above(key: str) -> set[str]:
        if key not in ancestors:
            ancestors[key] = set()  # ends cycles: WordNet 3.0 has one among its verbs
            for parent in synsets[key].parents:
                ancestors[key] |= {parent} | above(parent)
            ancestors[key].discard(key)
        return ancestors[key]

    records, in_test = [], []
    for synset in synsets.values():
        if labels := [synsets[key].name for key in sorted(above(synset.key))]:
            words = ", ".join(word.replace("_", " ") for word in synset.words)
            records.append(
                {"id": synset.name, "text": f"{words}: {synset.gloss}", "labels": labels}
            )
            in_test.append(is_test(synset.key, 10))
    used = {name for record in records for name in record["labels"]}
    edges = [
        (synset.name, synsets[parent].name)
        for synset in synsets.values()
        for parent in synset.parents
        if synset.name in used
    ]
    write_split(out, records, in_test, edges)


def main() -> None:
    options = parser(__doc__, "folder with data.noun and data.verb, or the archive").parse_args()
    build(read(options.source or fetch(URL, options.out / "download")), options.out)


if __name__ == "__main__":
    main()
