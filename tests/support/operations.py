"""What changes files: commands that tests kill and let fail, and how to tell old from new."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from labelspace.model import store

Outcome = dict[str, str]  # digests of what is there, by name
VOLATILE = {"seconds", "texts_per_second", "created", "date", "updates", "text_features"}

# Settings with which a training takes less than a second.
QUICK = {
    "dxml": "dim=8 hidden=16 epochs=2 batch_size=64 ensemble=1",
    "fusion": "members=knn,linear",
    "glas": "dim=8 epochs=2 batch_size=64 n_negatives=4",
    "hierarchicalxc": "fanout=4 leaf_size=20 ensemble=1",
    "hyperbolic": "dim=4 epochs=2 batch_size=64 ensemble=2",
    "knn": "neighbours=5",
    "linear": "",
    "neuralxc": "input_layers=8 output_layers=8 epochs=2 batch_size=64 ensemble=1",
    "seq2seq": "width=16 layers=1 heads=2 epochs=1 batch_size=64 beams=2",
    "treespace": "dim=8 top_dim=4 width=8 epochs=2 batch_size=64",
}
RESUMED = (
    "glas",
    "linear",
    "hierarchicalxc",
    "fusion",
    "dxml",
    "hyperbolic",
    "neuralxc",
    "treespace",
)
EXAMPLES = 120
SPARSE = "--kind sparse --points 200 --features 50 --labels 20 --nnz 5"
JOURNAL = "model.journal.jsonl"
COMPARED = (
    "--train train.jsonl --test test.jsonl --methods most-common,random "
    "--out report.json --html report.html --csv report.csv"
)


@dataclass(frozen=True)
class Operation:
    """A command that changes files of a folder.

    Attributes
    ----------
    name : str
    arguments : sequence of str
        What a nursery runs.
    outputs : mapping of name to function
        What each output is, as a digest; "" if it is absent. It raises if it is damaged.
    again : sequence of str
        What is run after a kill, if that differs.
    may_succeed : bool
        Whether a disk that fails may be only a warning.
    data : str
        The output that may be absent, but never be beside others that are older or newer.
    check : function, optional
        Returns what is wrong after a kill, from the folder and what was printed until then.
    """

    name: str
    arguments: Sequence[str]
    outputs: Mapping[str, Callable[[Path], str]]
    again: Sequence[str] = ()
    may_succeed: bool = False
    data: str = ""
    check: Callable[[Path, str], list[str]] | None = None

    def outcome(self, folder: Path) -> Outcome:
        """Return the digests of the outputs that are there."""
        found = {name: digest(folder / name) for name, digest in self.outputs.items()}
        return {name: value for name, value in found.items() if value}


def _words(command: str) -> list[str]:
    return command.split()


def file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def lines_digest(path: Path) -> str:
    """Return the digest of a whole file of JSON lines."""
    if path.exists():
        for line in path.read_text("utf-8").splitlines():
            json.loads(line)
    return file_digest(path)


def model_digest(path: Path) -> str:
    """Return the digest of a model without times; raise StoreError if it is not whole."""
    if not path.exists():
        return ""
    bundle = store.load(path)
    sha = hashlib.sha256(json.dumps(_timeless(bundle.header), sort_keys=True).encode())
    for stem in sorted(bundle.arrays):
        for name, array in sorted(bundle.arrays[stem].items()):
            sha.update(f"{stem} {name} {array.dtype} {array.shape}".encode())
            sha.update(np.ascontiguousarray(array).data)
    sha.update(json.dumps(bundle.documents, sort_keys=True).encode())
    return sha.hexdigest()[:16]


def report_digest(path: Path) -> str:
    """Return the digest of the accuracy in a report of a comparison."""
    if not path.exists():
        return ""
    entrants = json.loads(path.read_text())["entrants"]
    return json.dumps([(each["name"], each.get("P@1"), each.get("error")) for each in entrants])


def tuned_digest(path: Path) -> str:
    """Return the trials and scores of a report of `tune`, without times."""
    if not path.exists():
        return ""
    report = json.loads(path.read_text())
    return json.dumps(_timeless(report), sort_keys=True)


def journal_is_whole(folder: Path, printed: str) -> list[str]:
    """Return what is wrong with a journal, from what `journal` printed until it was killed."""
    from labelspace.serve.journal import Journal

    told = [line.split() for line in printed.splitlines() if line.count(" ") == 1]
    accepted = max((int(value) for word, value in told if word == "accepted"), default=0)
    contained = max((int(value) for word, value in told if word == "contained"), default=0)
    found = [entry.sequence for entry in Journal(folder / JOURNAL).after(0, 1000)]
    wrong = []
    if found != list(range(found[0], found[0] + len(found))) if found else False:
        wrong.append(f"the journal has a gap: {found}")
    if accepted > max(found, default=contained):
        wrong.append(f"{accepted} were accepted, the journal ends with {found[-1:]}")
    if found and found[0] > contained + 1:
        wrong.append(f"an example that no model contains was removed: {found[0]}")
    return wrong


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in VOLATILE}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def _train(method: str) -> Operation:
    settings = [word for pair in QUICK[method].split() for word in ("--set", pair)]
    command = ["train", "train.jsonl", "--method", method, *settings, "--out", "trained"]
    return Operation(
        f"train {method}",
        [*command, "--checkpoint-minutes", "0"],
        {"trained": model_digest},
        again=[*command, "--resume"],
    )


def operations() -> dict[str, Operation]:
    """Return all operations by name."""
    found = [
        *map(_train, RESUMED),
        Operation("save", [":save", "other", "model"], {"model": model_digest}),
        Operation("update", [":update", "model"], {"model": model_digest}),
        *(
            Operation(
                f"predict {kind}",
                ["predict", "model", "test.jsonl", "--batch-size", "8", "--out", f"tags.{kind}"],
                {f"tags.{kind}": lines_digest if kind == "jsonl" else file_digest},
            )
            for kind in ("jsonl", "csv", "parquet")
        ),
        *(
            Operation(
                f"convert {name}",
                ["data", "convert", "test.jsonl", name, *options],
                {name: file_digest, **dict.fromkeys(beside, file_digest)},
                data=name if beside else "",
            )
            for name, options, beside in (
                ("out.txt", ["--features", "tfidf"], ["out.txt.labels.txt"]),
                ("out.jsonl.gz", [], []),
                ("out.parquet", [], []),
            )
        ),
        Operation(
            "synth",
            _words("data synth shop --train 60 --test 20"),
            {f"shop/{n}": file_digest for n in ("train.jsonl", "test.jsonl", "hierarchy.tsv")},
        ),
        Operation(
            "synth sparse",
            _words(f"data synth sparse.txt {SPARSE}"),
            {"sparse.txt": file_digest},
        ),
        Operation("cache", [":cache", "rows.txt"], {}, may_succeed=True),
        Operation("journal", [":journal", JOURNAL], {}, check=journal_is_whole),
        Operation(
            "compare",
            _words(f"compare {COMPARED}"),
            {"report.json": report_digest},
            again=_words(f"compare {COMPARED} --resume"),
        ),
        Operation(
            "tune",
            _words("tune train.jsonl --method knn --search neighbours --trials 3 --out tuned"),
            {"tuned/model": model_digest, "tuned/report.json": tuned_digest},
        ),
    ]
    return {operation.name: operation for operation in found}


def prepare(folder: Path) -> None:
    """Fill an empty folder with what the operations read, and with old outputs."""
    import labelspace as ls
    from labelspace.data.formats.xc import write_xc
    from labelspace.datasets.products import product_records

    def write(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / name).write_text(text, encoding="utf-8")

    rows = list(product_records(EXAMPLES + 40))
    write("train.jsonl", rows[:EXAMPLES])
    write("test.jsonl", rows[EXAMPLES:])
    write("more.jsonl", rows[EXAMPLES : EXAMPLES + 20])
    for name, part in (("model", slice(0, 60)), ("other", slice(40, EXAMPLES))):
        ls.train(rows[part], method="knn", neighbours=5, progress=False).save(folder / name)
    for name in ("tags.jsonl", "tags.csv", "tags.parquet", "out.jsonl.gz", "out.parquet"):
        shutil.copy(folder / "more.jsonl", folder / name)
    X = ls.load(folder / "model").pipeline.transform(ls.read(rows[:30]))
    data = ls.read(rows[:30])
    for name in ("out.txt", "out.txt.labels.txt"):
        (folder / name).write_text("old\n")
    write_xc(type(data)(labels=data.labels, features=X), folder / "rows.txt")
    (folder / "tmp").mkdir()


# What follows is run in a child of the nursery.


def save(source: str, target: str) -> None:
    """Save one model in the place of another."""
    import labelspace as ls

    _as_command(lambda: ls.load(source).save(target))


def save_in_turn(one: str, other: str, target: str, times: str) -> None:
    """Save two models in turn in the place of a third."""
    import labelspace as ls

    models = ls.load(one), ls.load(other)
    for number in range(int(times)):
        models[number % 2].save(target)


def update(model: str) -> None:
    """Update a model, to the same bits each time: from a copy that does not change."""
    from labelspace.cli import main

    _command(main, ["update", "other", "more.jsonl", "--out", model])


def cache(data: str) -> None:
    """Read a file through the cache."""
    from labelspace.data.cache import cached
    from labelspace.data.formats.xc import read_xc

    def run() -> None:
        found = cached(data, partial(read_xc), "kept")
        print(found.labels.nnz)

    _as_command(run)


def journal(path: str) -> None:
    """Append examples and remove some again; print how many were accepted, and how many may go."""
    from labelspace.serve.journal import Journal

    def run() -> None:
        found = Journal(Path(path))
        for number in range(6):
            print("accepted", found.append([(f"text {number}", ["a"])] * 3), flush=True)
            if number % 2:
                done = found.after(0, 2)[-1].sequence
                print("contained", done, flush=True)
                found.forget(done)

    _as_command(run)


def _as_command(run: Callable[[], None]) -> None:
    """Run with errors that the command line would print."""
    from labelspace import cli

    def main() -> None:
        cli._run, before = lambda: _reported(run), cli._run
        try:
            cli.main()
        finally:
            cli._run = before

    main()


def _reported(run: Callable[[], None]) -> None:
    from labelspace import cli
    from labelspace.errors import LabelspaceError

    try:
        run()
    except (LabelspaceError, OSError) as error:
        cli._fail(str(error), 1)


def _command(main: Callable[[], None], arguments: Sequence[str]) -> None:
    import sys

    sys.argv = ["labelspace", *arguments]
    main()
