"""Builds the wheel and the sdist twice from the last commit and compares their bytes.

    python tools/build_dist.py OUT [COMMIT]

Both builds export the commit into a folder of their own, so that no file beside it gets in, and
SOURCE_DATE_EPOCH is the time of the commit. setuptools writes wheels with that time, but sdists
with the times and owners of the build, so the sdist is packed again without them.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


def exported(commit: str, folder: Path) -> Path:
    """Write the files of a commit to a folder and return it."""
    archive = subprocess.run(["git", "archive", commit], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def built(source: Path, out: Path, epoch: int) -> dict[str, bytes]:
    """Return the content of the wheel and the sdist that are built from a folder."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    content = {file.name: file.read_bytes() for file in sorted(out.iterdir())}
    return {
        name: repacked(data, epoch) if name.endswith(".tar.gz") else data
        for name, data in content.items()
    }


def repacked(sdist: bytes, epoch: int) -> bytes:
    """Return an sdist with sorted members, one time, and no owners."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist)) as old,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            clean = tarfile.TarInfo(member.name)
            clean.type, clean.size, clean.mtime = member.type, member.size, epoch
            clean.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(clean, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(packed.getvalue(), mtime=epoch)


def main(out: Path, commit: str) -> int:
    command = ["git", "log", "-1", "--format=%ct", commit]
    epoch = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    builds = []
    for number in ("one", "the-other"):  # paths of other lengths
        with tempfile.TemporaryDirectory(prefix=f"labelspace-{number}-") as folder:
            source = exported(commit, Path(folder, "source"))
            builds.append(built(source, Path(folder, "dist"), epoch))
    if builds[0] != builds[1]:
        differing = [name for name in builds[0] if builds[0][name] != builds[1].get(name)]
        print(f"not reproducible: {', '.join(differing)}", file=sys.stderr)
        return 1
    out.mkdir(parents=True, exist_ok=True)
    for name, data in builds[0].items():
        (out / name).write_bytes(data)
        print(
            f"{hashlib.sha256(data).hexdigest()}  {out / name}  ({len(data):,} bytes, same twice)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "HEAD"))
