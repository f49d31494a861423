"""Parameter tables of the method pages, filled from the declarations of the methods.

    python docs/tables.py            # write them
    python docs/tables.py --check    # fail if a page is out of date

A table stands between `<!-- parameters: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from labelspace.methods.parameters import GROUPS, written
from labelspace.methods.registry import method_class

PAGES = Path(__file__).resolve().parent / "methods"
MARKED = re.compile(r"(<!-- parameters: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


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
            lines = ["| parameter | default | allowed | meaning |", "|---|---|---|---|"]
            lines += ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in rows]
            parts.append(f"**{group.capitalize()}** ({meaning})\n\n" + "\n".join(lines))
    return "\n" + "\n\n".join(parts) + "\n\n"


def filled(page: str) -> str:
    """Return the text of a page with its tables brought up to date."""
    return MARKED.sub(lambda m: m.group(1) + parameter_table(m.group(2)) + m.group(3), page)


def main(arguments: list[str]) -> int:
    outdated = []
    for path in sorted(PAGES.glob("*.md")):
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
