"""Runs an installed labelspace in an empty folder: a catalogue, training, prediction, and a server.

    ENVIRONMENT/bin/python tools/check_install.py [--serve]

Fails if the package is imported from anywhere but the environment of this interpreter.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import labelspace

TEXT = "Wireless earbuds with charging case, black"


def run(*arguments: str) -> str:
    """Run a command of the installed program and return what it prints."""
    program = Path(sys.executable).with_name("labelspace")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"labelspace {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def check_server() -> None:
    """Start a server on a free port, send one text and stop it."""
    program = Path(sys.executable).with_name("labelspace")
    command = [program, "serve", "model", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            found = next(filter(None, (re.search(r"on (http://\S+)", s) for s in server.stderr)))
            body = json.dumps({"text": TEXT, "k": 1}).encode()
            request = urllib.request.Request(
                f"{found[1]}/v1/models/model/tag", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                print("served:", answer.read().decode())
        finally:
            server.terminate()


def main() -> None:
    place = Path(labelspace.__file__)
    if not place.is_relative_to(Path(sys.prefix)):
        raise SystemExit(f"{place} is not in the environment {sys.prefix}")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run("data", "synth", "shop", "--train", "1000", "--test", "200")
        run("train", "shop/train.jsonl", "--out", "model")
        Path("new.jsonl").write_text(json.dumps({"id": "a", "text": TEXT}) + "\n")
        print("predicted:", run("predict", "model", "new.jsonl", "--top", "1").strip())
        figures = json.loads(run("evaluate", "model", "shop/test.jsonl", "--json"))
        members = labelspace.load("model").method.metadata()["members"]
        print(f"{place}: members {members}, P@1 {figures['P@1']:.1f}")
        if figures["P@1"] < 60:
            raise SystemExit("the model is worse than any that was trained from the repository")
        if "--serve" in sys.argv:
            check_server()


if __name__ == "__main__":
    main()
