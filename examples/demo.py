"""A tour in a minute or two: generate a catalogue, train, evaluate, predict, compare."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

DEMO = Path("demo")
SENTENCES = [
    "Wireless earbuds with charging case, black",
    "Stainless steel frying pan 28 cm with lid",
    "Trail running shoes for women, waterproof, size 39",
]


def labelspace(*arguments: str) -> None:
    print(f"\n$ labelspace {' '.join(arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "labelspace", *arguments], check=True)


def main() -> None:
    shutil.rmtree(DEMO, ignore_errors=True)
    shop, model, new = DEMO / "shop", DEMO / "model", DEMO / "new.jsonl"
    labelspace("data", "synth", str(shop), "--train", "8000", "--test", "2000")
    train, test = (next(shop.glob(f"{part}.jsonl*")) for part in ("train", "test"))
    labelspace("data", "info", str(train))
    labelspace("train", str(train), "--out", str(model))
    labelspace("evaluate", str(model), str(test))
    lines = [json.dumps({"id": text, "text": text}) + "\n" for text in SENTENCES]
    new.write_text("".join(lines), encoding="utf-8")
    labelspace("predict", str(model), str(new), "--top", "3")
    labelspace(
        *("compare", "--train", str(train), "--test", str(test)),
        *("--methods", "most-common,knn,fusion", "--html", str(DEMO / "report.html")),
    )
    print(f"""
Done. To open the page on which texts are tagged, at http://127.0.0.1:8000 (Ctrl-C stops it):

  .venv/bin/labelspace serve --demo --open

The comparison is in {DEMO / "report.html"}. What else to try:
  labelspace train YOUR.jsonl --out model/       lines of {{"text": ..., "labels": [...]}}
  labelspace compare --train A --test B --methods fusion --peers omikuji,napkinxc
  labelspace methods fusion                      the parameters of a method
  docs/                                          formats, metrics, methods
(labelspace is in .venv/bin here.)""")


if __name__ == "__main__":
    main()
