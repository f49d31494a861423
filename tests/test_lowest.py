"""The lowest versions that are tested are those that pyproject.toml allows."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
# Extras that `make lowest` installs.
TESTED = ("neural", "text", "sentences", "skos", "plots", "tune", "serve")


def test_every_lower_bound_is_the_version_that_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lowest: dict[str, Version] = {}
    only_pinned = ("torch", project["name"])  # an extra may name the project with other extras
    for line in [*project["dependencies"], *(each for name in TESTED for each in extras[name])]:
        one = Requirement(line)
        if one.name in only_pinned:
            continue
        (bound,) = [each.version for each in one.specifier if each.operator == ">="]
        name = canonicalize_name(one.name)
        lowest[name] = max(lowest.get(name, Version("0")), Version(bound))
    pinned = {}
    for line in (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines():
        name, _, version = line.partition("==")
        pinned[canonicalize_name(name)] = Version(version)
    assert {name: pinned.get(name) for name in lowest} == lowest
