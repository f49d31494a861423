"""Parameter tables of the method pages, filled from the declarations of the methods.

    python docs/tables.py            # write them
    python docs/tables.py --check    # fail if a page is out of date

A table stands between `<!-- parameters: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from labelspace.methods.registry import method_class

PAGES = Path(__file__).resolve().parent / "methods"
MARKED = re.compile(r"(<!-- parameters: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def parameter_table(name: str) -> str:
    """Return the Markdown table of a method's parameters."""
    cls = method_class(name)
    defaults = {key: value.default for key, value in inspect.signature(cls).parameters.items()}
    rows = ["| parameter | default | allowed | meaning |", "|---|---|---|---|"]
    for key, parameter in cls.parameters.items():
        cells = (f"`{key}`", _default(defaults[key]), parameter.describe(), parameter.help)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n" + "\n".join(rows) + "\n\n"


def filled(page: str) -> str:
    """Return the text of a page with its tables brought up to date."""
    return MARKED.sub(lambda m: m.group(1) + parameter_table(m.group(2)) + m.group(3), page)


def _default(value: Any) -> str:
    """Return a default as `--set` takes it."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(str(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


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
