"""Sentence vectors: texts per second and accuracy by precision and truncation.

    python benchmarks/sentences.py speed DIR FOLDER... [--texts 300]
    python benchmarks/sentences.py accuracy DIR FOLDER... [--rows 20000] [--method fusion]

Both use training files alone. `speed` encodes the same random texts with all settings in turn, on
one thread, and counts processor time; the cosine is that to float32 at the directory's limit.
`accuracy` holds out a quarter of the rows. DIR is a sentence-transformers directory. Results are in
benchmarks/results/sentences-*.json and .md.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from kept import keep
from labelspace._core.threads import set_cores
from labelspace.data import Dataset, read_split
from labelspace.features import FeaturePipeline, SentenceVectors, SideBySide, TextFeatures, Tfidf
from labelspace.features.sentences import PRECISIONS
from labelspace.methods.registry import method_class
from labelspace.metrics.ranking import evaluate

WHOLE = None  # tokens: the limit is the directory's own
SETTINGS = [("float32", WHOLE), ("int8", WHOLE), ("int8", 128), ("int8", 96), ("int8", 64)]


def sample(folder: Path, rows: int) -> Dataset:
    train, _ = read_split(folder)
    chosen = np.random.default_rng(0).permutation(len(train))[:rows]
    return train.take(np.sort(chosen))


def speed(source: str, folder: Path, count: int) -> None:
    torch.set_num_threads(1)
    set_cores(1)
    texts = list(sample(folder, count).texts or [])
    found, exact = [], None
    for precision, limit in SETTINGS:
        encoder = SentenceVectors(source=source, precision=precision, max_tokens=limit).fit([])
        encoder.transform(texts[:8])
        start = time.process_time()
        rows = encoder.transform(texts).toarray()
        seconds = time.process_time() - start
        exact = rows if exact is None else exact
        found.append(
            {
                "set": folder.name,
                "precision": precision,
                "max_tokens": encoder.state()[0]["encoder"]["max_tokens"],
                "texts": len(texts),
                "texts_per_s": round(len(texts) / seconds, 1),
                "cosine": round(float((rows * exact).sum(axis=1).mean()), 4),
            }
        )
    keep("sentences-speed", found, ("set", "precision", "max_tokens"))


def accuracy(source: str, folder: Path, rows: int, method: str, precisions: list[str]) -> None:
    known, held_out = sample(folder, rows).split(0.25, seed=0)
    for precision, limit in [("none", 0), *SETTINGS]:
        if precision not in ("none", *precisions):
            continue
        text: TextFeatures = Tfidf()
        if precision != "none":
            encoder = SentenceVectors(source=source, precision=precision, max_tokens=limit)
            text = SideBySide([(1.0, text), (1.0, encoder)])
        pipeline = FeaturePipeline(text)
        model = method_class(method).create()
        model.fit(pipeline.fit_transform(known), known.labels)
        ranking = model.predict(pipeline.transform(held_out), 5)
        figures = evaluate(ranking, held_out.labels)
        row = {
            "set": folder.name,
            "rows": len(known),
            "held_out": len(held_out),
            "method": method,
            "precision": precision,
            "max_tokens": limit if limit is not None else "all",
            **{name: round(figures[name], 2) for name in ("P@1", "P@3", "P@5", "nDCG@5")},
        }
        keep("sentences-accuracy", [row], ("set", "rows", "method", "precision", "max_tokens"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("speed", help="texts per second")
    two = commands.add_parser("accuracy", help="precision on a cut of the training file")
    for command in (one, two):
        command.add_argument("source", help="a sentence-transformers directory")
        command.add_argument("folders", nargs="+", type=Path)
    one.add_argument("--texts", type=int, default=300)
    two.add_argument("--rows", type=int, default=20_000)
    two.add_argument("--method", default="fusion")
    two.add_argument("--precisions", nargs="+", default=list(PRECISIONS), choices=PRECISIONS)
    options = parser.parse_args()
    for folder in options.folders:
        if options.command == "speed":
            speed(options.source, folder, options.texts)
        else:
            accuracy(options.source, folder, options.rows, options.method, options.precisions)


if __name__ == "__main__":
    main()
