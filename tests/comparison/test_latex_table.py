"""The LaTeX table of a comparison: it is well formed, marks the best and escapes names."""

from __future__ import annotations

import re

import pytest

from labelspace.comparison.latex_table import comparison_latex, latex
from support.comparisons import report_of

COMMANDS = {
    "begin", "end", "centering", "footnotesize", "setlength", "tabcolsep", "caption", "label",
    "toprule", "midrule", "bottomrule", "medskip", "scriptsize", "pm", "textbf", "underline",
    "textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar",
}  # fmt: skip


def parsed(text):
    """Return the rows of each tabular as lists of cells, having checked the structure."""
    text = re.sub(r"^%.*\n", "", text, flags=re.M)
    assert set(re.findall(r"\\([A-Za-z]+)", text)) <= COMMANDS
    bare = re.sub(r"\\[_%&#${}]", "", text)  # characters that are printed
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    assert not set("%#~^_<>|") & set(bare.replace(r"\label{tab:set-1}", ""))
    environments = []
    for how, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if how == "begin":
            environments.append(name)
        else:
            assert environments.pop() == name
    assert not environments
    tables = []
    for columns, body in re.findall(
        r"\\begin\{tabular\}\{(l?r*)\}(.*?)\\end\{tabular\}", text, re.S
    ):
        lines = [line.strip() for line in body.strip().splitlines()]
        assert lines[0] == r"\toprule"
        assert lines[2] == r"\midrule"
        assert lines[-1] == r"\bottomrule"
        rows = [lines[1], *lines[3:-1]]
        assert all(row.endswith(r"\\") for row in rows)
        cells = [re.split(r"(?<!\\)&", row[:-2]) for row in rows]
        assert {len(row) for row in cells} == {len(columns)}
        tables.append([[cell.strip() for cell in row] for row in cells])
    assert "&" not in re.sub(r"\\begin\{tabular\}.*?\\end\{tabular\}", "", bare, flags=re.S)
    return tables


@pytest.mark.parametrize("seeds", [[0], [0, 1, 2]])
def test_tables_are_well_formed(seeds):
    report = report_of(["a", "b", "c"], [0.8, 0.6, 0.5], seeds=seeds)
    accuracy, propensity, cost = parsed(comparison_latex(report))
    assert accuracy[0] == ["", "P@1", "P@3", "P@5", "nDCG@3", "nDCG@5"]
    assert propensity[0][-1] == "ECE"
    assert cost[0][1] == "train s"
    assert [row[0] for row in cost[1:]] == ["a", "b", "c"]
    deviation = r" {\scriptsize $\pm$ 0.25}" if len(seeds) > 1 else ""
    assert cost[2][-1] == f"6.88{deviation}"


def test_the_best_is_bold_and_what_may_be_as_good_is_underlined():
    report = report_of(["worse", "best", "close"], [0.5, 0.8, 0.79])
    accuracy, propensity, cost = parsed(comparison_latex(report))
    shown = [f"{each['P@1']:.2f}" for each in report["entrants"]]
    assert [row[1] for row in accuracy[1:]] == [
        shown[0], rf"\textbf{{{shown[1]}}}", rf"\underline{{{shown[2]}}}"
    ]  # fmt: skip
    # PSP is not tested, and of ECE and cost the lowest is best.
    assert propensity[2][1].startswith(r"\textbf{")
    assert "\\" not in propensity[1][1] + propensity[3][1]
    assert [row[-1] for row in propensity[1:]] == [r"\textbf{2.00}", "3.00", "4.00"]
    assert [row[-1] for row in cost[1:]] == [r"\textbf{5.88}", "6.88", "7.88"]
    report["significance"]["pairs"] = []  # pairs that were not tested are not marked
    assert "underline" not in comparison_latex(report)


def test_the_caption_says_what_the_figures_are():
    text = comparison_latex(report_of(["a", "b"], [0.8, 0.6], seeds=[0, 1, 2]))
    caption = re.search(r"\\caption\{(.*)\}\n", text)[1]
    assert caption.startswith(r"set\_1: 400 test examples, 1,000 training examples, 50 labels.")
    assert "over 3 seeds" in caption
    assert r"p of at least 0.05 after Holm's correction" in caption
    assert r"\label{tab:set-1}" in text
    text = comparison_latex(report_of(["a"], [0.8]))
    assert "One run per system (seed 0)." in text
    assert "Underlined" not in text
    assert "textbf" not in text  # nothing to be better than


def test_systems_that_failed_are_named_and_have_no_row():
    report = report_of(["a", "b"], [0.8, 0.6])
    report["entrants"][1] = {"name": "b_2", "kind": "method", "params": {}, "error": "x"}
    tables = parsed(comparison_latex(report))
    assert all(len(table) == 2 for table in tables)
    assert r"Failed: b\_2." in comparison_latex(report)
    report["entrants"][0]["error"] = "y"
    assert all(len(table) == 1 for table in parsed(comparison_latex(report)))


def test_names_and_missing_figures_are_printed_as_they_are():
    name = r"a_b%c&d#e$f{g}h~i^j\k<l>m|n"
    report = report_of([name, "peer"], [0.8, 0.6])
    del report["entrants"][1]["ECE"]
    report["entrants"][1]["one_ms_p50"] = 0.0001
    _, propensity, cost = parsed(comparison_latex(report))
    assert (
        propensity[1][0]
        == latex(name)
        == (
            r"a\_b\%c\&d\#e\$f\{g\}h\textasciitilde{}i\textasciicircum{}j\textbackslash{}k"
            r"\textless{}l\textgreater{}m\textbar{}n"
        )
    )
    assert propensity[2][-1] == "--"
    assert cost[2][3] == r"\textbf{\textless{}0.001}"
