"""Tables of parameters, filled from the declarations of the methods, and the list of errors.

    python docs/tables.py            # write them
    python docs/tables.py --check    # fail if a page is out of date

A table stands between `<!-- parameters: NAME -->` and `<!-- end -->`; the values of a preset stand
between `<!-- preset: NAME PRESET -->` and `<!-- end -->`; what tuning searches stands between
`<!-- search: NAME NAME... -->` and `<!-- end -->`, on the page on tuning. Between
`<!-- errors: all -->` and `<!-- end -->` stand the classes of `labelspace.errors`, from their
docstrings.
"""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from pathlib import Path

from labelspace import errors
from labelspace.methods.parameters import GROUPS, written
from labelspace.methods.presets import presets_of
from labelspace.methods.registry import method_class

DOCS = Path(__file__).resolve().parent
PAGES = [*sorted((DOCS / "methods").glob("*.md")), DOCS / "tuning.md", DOCS / "troubleshooting.md"]
MARKED = re.compile(
    r"(<!-- (parameters|preset|search|errors): ([\w -]+) -->\n).*?(<!-- end -->)", re.DOTALL
)


def parameter_table(name: str) -> str:
    """Return the Markdown tables of a method's parameters, one per group."""
    parts = []
    parameters = method_class(name).parameters
    for group, meaning in GROUPS.items():
        rows = [
            (f"`{key}`", written(one.default), one.describe(), one.sentence())
            for key, one in parameters.items()
            if one.group == group
        ]
        if rows:
            head = ("parameter", "default", "allowed", "meaning")
            parts.append(f"**{group.capitalize()}** ({meaning})\n\n" + table(head, rows))
    return "\n" + "\n\n".join(parts) + "\n\n"


def preset_table(names: str) -> str:
    """Return the Markdown table of a preset, given as "method preset"."""
    method, preset = names.split()
    settings = presets_of(method_class(method).parameters)[preset].settings
    rows = [
        (f"`{key}`", written(one.value), "stated" if one.stated else "chosen", one.source)
        for key, one in settings.items()
    ]
    return "\n" + table(("parameter", "value", "by the paper", "where, or why"), rows) + "\n\n"


def search_table(names: str) -> str:
    """Return the Markdown table of what tuning searches, of the methods "one another"."""
    rows = [
        (f"`{name}`", f"`{key}`", written(one.default), one.search.describe())
        for name in names.split()
        for key, one in method_class(name).parameters.items()
        if one.search is not None
    ]
    return "\n" + table(("method", "parameter", "default", "searched"), rows) + "\n\n"


def error_list(_: str) -> str:
    """Return a section per error: when it is raised, what to do, and messages."""
    found = [each for each in vars(errors).values() if inspect.isclass(each)]
    return "\n" + "\n\n".join(_section(e) for e in found if issubclass(e, Exception)) + "\n\n"


def _section(error: type[Exception]) -> str:
    """Return what the docstring of an error has, as Markdown."""
    text = inspect.getdoc(error) or ""
    heads = re.split(r"^(\w+)\n-+\n", text, flags=re.M)
    parts = dict(zip(heads[1::2], heads[2::2], strict=True))
    examples = doctest.DocTestParser().get_examples(parts["Examples"])
    messages = [" ".join(one.want.split()) for one in examples if one.want]
    kinds = [base.__name__ for base in error.__bases__ if base is not Exception]
    kind = f"A kind of {', '.join(f'`{name}`' for name in kinds)}. " if kinds else ""
    cure = " ".join(parts["Notes"].split())
    shown = "\n".join(f"    {message}" for message in messages)
    return (
        f"### {error.__name__}\n\n{kind}{' '.join(heads[0].split())}\n\n"
        f"**What to do:** {cure}\n\n{shown}"
    )


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *escaped]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def filled(page: str) -> str:
    """Return the text of a page with its tables brought up to date."""
    tables = {
        "parameters": parameter_table,
        "preset": preset_table,
        "search": search_table,
        "errors": error_list,
    }
    return MARKED.sub(lambda m: m.group(1) + tables[m.group(2)](m.group(3)) + m.group(4), page)


def main(arguments: list[str]) -> int:
    outdated = []
    for path in PAGES:
        before = path.read_text(encoding="utf-8")
        after = filled(before)
        if after != before:
            outdated.append(path.name)
            if "--check" not in arguments:
                path.write_text(after, encoding="utf-8")
    if outdated and "--check" in arguments:
        print(f"out of date: {', '.join(outdated)}; run python docs/tables.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
