"""The plot of trials."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
from labelspace.plots.trials import write_trials_plot


def trial(number, score, state="complete", reason="", **parameters):
    return {
        "number": number, "state": state, "score": score, "reason": reason,
        "parameters": parameters,
    }  # fmt: skip


TRIALS = [
    trial(1, 60.0),
    trial(2, 55.5, lr=0.0001, loss="logistic"),
    trial(3, None, "pruned", "below <the> median", lr=0.02, loss="hinge"),
    trial(4, 64.25, lr=0.01, loss="hinge"),
]


def test_a_page_has_every_trial_as_a_row(tmp_path):
    write_trials_plot(TRIALS, tmp_path / "trials.html", "P@1", "a $title")
    page = (tmp_path / "trials.html").read_text()
    rows = page.split("<tr>")[2:]
    assert len(rows) == 4
    assert "<td>64.25</td><td>0.01</td><td>hinge</td>" in rows[3]
    assert "<td>pruned</td>" in rows[2]
    assert "below &lt;the&gt; median" in rows[2]


@pytest.mark.parametrize(
    "trials", [TRIALS, TRIALS[:1], [trial(1, None, "failed", "x")]], ids=["some", "one", "none"]
)
def test_pictures_are_drawn_of_any_trials(tmp_path, trials):
    write_trials_plot(trials, tmp_path / "trials.png", "P@1")
    assert (tmp_path / "trials.png").read_bytes().startswith(b"\x89PNG")
