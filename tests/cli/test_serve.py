"""`labelspace serve`: what is refused before anything is served."""

from __future__ import annotations

import sys

import pytest

MODULES = ("fastapi", "uvicorn", "prometheus_client")


@pytest.fixture
def installed():
    for name in MODULES:
        pytest.importorskip(name, reason="the extra serve is not installed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give the directory of a model, or --demo"),
        (("no/such/model",), "no/such/model holds no model"),
        (("m", "--host", "0.0.0.0"), "--token-file"),
        (("m", "--token-file", "none.txt"), "--token-file none.txt: No such file"),
        (("m", "x/m"), "there are two models 'm'"),
        (("m", "--workers", "2", "--allow-learn"), "one process learns"),
        (("m", "--host", "203.0.113.1", "--no-auth"), "203.0.113.1:0: "),
    ],
)
@pytest.mark.usefixtures("installed")
def test_errors_are_one_sentence(command, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = command("serve", *arguments, "--port", "0")
    assert code in (1, 2)
    assert out == ""
    assert message in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("error: ")


def test_without_the_extra_its_name_is_given(command, monkeypatch):
    for name in [each for each in sys.modules if each.startswith("labelspace.serve.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    code, _, err = command("serve", "m")
    assert code == 1
    assert "pip install 'labelspace[serve]'" in err
