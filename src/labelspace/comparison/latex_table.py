r"""The report of a comparison as a LaTeX table in the style of the package booktabs.

Figures stand in three tables below each other, so that they fit the width of a page with their
deviations, under one caption and label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labelspace._core.plain import plain
from labelspace.comparison.figures import (
    ACCURACY,
    COST_HEADS,
    leader,
    percent,
    three_digits,
    with_deviation,
    without_failures,
)
from labelspace.comparison.significance import LEVEL, p_of_pair

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    **{character: f"\\{character}" for character in "_%&#${}"},
}
_COLUMNS = (
    [*ACCURACY["P"], *ACCURACY["nDCG"]],
    [*ACCURACY["PSP"], *ACCURACY["PSnDCG"], "ECE"],
    list(COST_HEADS),
)


def latex(text: str) -> str:
    r"""Return a text on one line with its special characters as LaTeX prints them.

    Examples
    --------
    >>> print(latex("a_b & 50 %"))
    a\_b \& 50 \%
    """
    return "".join(_SPECIAL.get(character, character) for character in plain(text))


def comparison_latex(report: Mapping[str, Any]) -> str:
    r"""Return the report of `compare` as a LaTeX table, which needs the package booktabs.

    Parameters
    ----------
    report : mapping
        What `compare` returned.

    Returns
    -------
    str
        A `table` environment with caption and label. The best value of a column is bold; values of
        P and nDCG that are not significantly worse are underlined.
    """
    name = report["data"].get("name", "comparison")
    tables = "\n\n  \\medskip\n".join(_tabular(report, keys) for keys in _COLUMNS)
    return f"""% Needs \\usepackage{{booktabs}}.
\\begin{{table}}
  \\centering
  \\footnotesize
  \\setlength{{\\tabcolsep}}{{4pt}}
  \\caption{{{_caption(report, name)}}}
  \\label{{tab:{re.sub("[^A-Za-z0-9]+", "-", name)}}}
{tables}
\\end{{table}}
"""


def _caption(report: Mapping[str, Any], name: str) -> str:
    seeds, data = report["settings"]["seeds"], report["data"]
    sentences = [
        f"{name}: {data['test_points']:,} test examples, {data['points']:,} training examples, "
        f"{data['labels']:,} labels."
    ]
    if len(seeds) == 1:
        sentences.append(f"One run per system (seed {seeds[0]}).")
    else:
        sentences.append(f"Mean ± sample standard deviation over {len(seeds)} seeds.")
    sentences.append("Metrics are in percent. Bold: best of the column.")
    if "significance" in report:
        sentences.append(
            "Underlined: P and nDCG not significantly worse than the best (paired randomisation "
            f"test over test examples, p of at least {LEVEL:g} after Holm's correction)."
        )
    failed = [each["name"] for each in report["entrants"] if "error" in each]
    if failed:
        sentences.append(f"Failed: {', '.join(failed)}.")
    return latex(" ".join(sentences))


def _tabular(report: Mapping[str, Any], keys: Sequence[str]) -> str:
    form: Callable[[Any], str] = three_digits if keys[0] in COST_HEADS else percent
    heads = [COST_HEADS.get(key, key) for key in keys]
    rows = [
        [latex(each["name"]), *(_cell(report, place, key, form) for key in keys)]
        for place, each in enumerate(report["entrants"])
        if "error" not in each
    ]
    lines = [
        f"\\begin{{tabular}}{{l{'r' * len(keys)}}}",
        "  \\toprule",
        _row(["", *map(latex, heads)]),
        "  \\midrule",
        *map(_row, rows),
        "  \\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(f"  {line}" for line in lines)


def _row(cells: Sequence[str]) -> str:
    return f"  {' & '.join(cells)} \\\\"


def _cell(report: Mapping[str, Any], place: int, key: str, form: Callable[[Any], str]) -> str:
    each = report["entrants"][place]
    if each.get(key) is None:
        return "--"
    shown, several, deviation = with_deviation(each, key, form).partition(" ")
    mark = _mark(report, place, key) if len(without_failures(report)) > 1 else ""
    marked = f"\\{mark}{{{latex(shown)}}}" if mark else latex(shown)
    return f"{marked} {{\\scriptsize {latex(deviation)}}}" if several else marked


def _mark(report: Mapping[str, Any], place: int, key: str) -> str:
    """Return the command that marks a value: bold for the best, underlined if it may be as good."""
    lower_is_better = key in COST_HEADS or key == "ECE"
    best = leader(without_failures(report), key, min if lower_is_better else max)
    if report["entrants"][place][key] == best:
        return "textbf"
    leading = next(i for i, each in enumerate(report["entrants"]) if each.get(key) == best)
    p = p_of_pair(report, key, leading, place)
    return "underline" if p is not None and p >= LEVEL else ""
