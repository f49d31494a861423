"""A process that forks commands, shared by the tests of one worker."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from support.attacks import Attack
from support.nursery import Nursery
from support.operations import operations, prepare


@pytest.fixture(scope="session")
def nursery(tmp_path_factory):
    with Nursery(tmp_path_factory.mktemp("nursery")) as found:
        yield found


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """Return a folder that operations work on copies of."""
    folder = tmp_path_factory.mktemp("template") / "work"
    folder.mkdir()
    prepare(folder)
    return folder


@pytest.fixture(scope="session")
def attacks(nursery, template, tmp_path_factory):
    """Return attacks on operations by name; each has run undisturbed."""
    known, scratch = operations(), tmp_path_factory.mktemp("attacks")
    made = {}

    def attack(name):
        if name not in made:
            made[name] = Attack(nursery, template, scratch, known[name])
        return made[name]

    return SimpleNamespace(of=attack, dice=lambda name: random.Random(f"failures {name}"))
