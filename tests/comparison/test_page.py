"""The page of a comparison: differences between systems, levels, and costs with deviations."""

from __future__ import annotations

from labelspace.comparison.figures import significance_sentence, with_deviation
from labelspace.comparison.page import comparison_page
from support.comparisons import report_of


def test_differences_are_shown_and_those_by_chance_are_grey():
    report = report_of(["worse", "best", "<b>close"], [0.5, 0.8, 0.79], seeds=[0, 1])
    page = comparison_page(report, "x")
    found = {tuple(pair["names"]): pair["P@1"] for pair in report["significance"]["pairs"]}
    clear, close = found["worse", "best"], found["best", "<b>close"]
    assert close["p_holm"] >= 0.05
    shown = "{difference:+.2f} [{low:+.2f}, {high:+.2f}] p"
    assert f"<tr><td>worse - best</td><td>{shown.format(**clear)} &lt;0.001</td>" in page
    assert (
        f"<tr><td>best - &lt;b&gt;close</td><td class=chance>{shown.format(**close)} "
        f"{close['p_holm']:.3f}</td>" in page
    )
    assert "two-sided paired randomisation test over 400 test examples" in page
    assert "means over 2 runs" in page
    assert "corrected for 3 pairs by Holm&#x27;s method" in page
    del report["significance"]
    assert "Differences" not in comparison_page(report, "x")


def test_the_sentence_on_tests_says_what_was_not_tested():
    assert "compared with the first one only" not in significance_sentence(
        report_of(list("ab"), [0.5, 0.6])
    )
    many = report_of(list("abcdefghijkl"), [0.3 + i / 40 for i in range(12)], n=50)
    assert "Systems after the first 10 are compared with the first one only." in (
        significance_sentence(many)
    )


def test_levels_are_shown_with_their_deviations():
    report = report_of(["a", "b"], [0.8, 0.6], seeds=[0, 1])
    for entrant, figure in zip(report["entrants"], (70.0, 80.0), strict=True):
        level = {"labels": 12, "examples": 1400, "micro-F1": figure, "macro-F1": None}
        entrant["by_level"] = {
            "chosen": "likeliest path",
            "exact path": figure - 20,
            "hierarchical": {"precision": 1.0, "recall": 2.0, "F1": figure - 10},
            "levels": {"<L0>": level},
        }
        entrant["std"]["by_level"] = {"exact path": 1.25, "levels": {"<L0>": {"micro-F1": 2.5}}}
    page = comparison_page(report, "x")
    assert "<h3>&lt;L0&gt;: 12 labels in 1,400 test examples</h3>" in page
    assert "<td>70.00 ± 2.50</td>" in page
    assert "<td class=best>80.00 ± 2.50</td>" in page
    assert "<td class=best>60.00 ± 1.25</td>" in page
    assert "Of the predicted labels (likeliest path)." in page


def test_a_deviation_has_the_decimals_of_its_figure():
    entrant = {"train_s": 312.4, "std": {"train_s": 0.0752}}
    assert with_deviation(entrant, "train_s", lambda value: f"{value:.0f}") == "312 ± 0"
    assert with_deviation(entrant, "train_s") == "312.40 ± 0.08"
    page = comparison_page(report_of(["a"], [0.5], seeds=[0, 1]), "x")
    assert "98,765 ± 0</td>" in page
    assert "5.88 ± 0.25</td>" in page
