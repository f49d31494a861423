"""Hook of the site generator: pages that live outside `docs/`, and the API reference.

README, CONTRIBUTING, CHANGELOG and the benchmarks stay where readers of the repository expect them.
Links between all of these are written for the repository; here they are rewritten for the site, and
a link to a file that does not exist fails the build.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import labelspace

ROOT = Path(__file__).resolve().parents[1]
SOURCE_CODE = "https://github.com/labelspace/labelspace/blob/main/"
MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}

# Second part of a module's name -> page of the reference.
PAGES = {
    "model": "model",
    "data": "data",
    "methods": "methods",
    "tuning": "tuning",
    "metrics": "metrics",
    "ranking": "metrics",
    "errors": "errors",
}
TITLES = {
    "model": "Models",
    "data": "Data",
    "methods": "Methods",
    "tuning": "Tuning",
    "metrics": "Metrics and rankings",
    "errors": "Errors",
}
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")
LOADED = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(https?://[^\"'\s>]+)"
)
FENCE = re.compile(r"^(```|~~~)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in `docs/`."""
    for source in [*MOVED, *_benchmark_files()]:
        target = MOVED.get(source, source)
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    for uri, text in _reference().items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Rewrite links that are relative to the repository into links relative to the site."""
    source = _source_of(page.file.src_uri)
    if source is None:
        return markdown
    lines, fenced = [], False
    for line in markdown.splitlines():
        if FENCE.match(line.lstrip()):
            fenced = not fenced
        lines.append(line if fenced else LINK.sub(lambda m: _link(m, source, page, files), line))
    return "\n".join(lines) + "\n"


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Fail the build where a page would load something over the network."""
    if loaded := LOADED.findall(output):
        raise PluginError(f"{page.file.src_uri} loads {', '.join(loaded)}")
    return output


def _benchmark_files() -> list[str]:
    found = [path for kind in ("md", "png") for path in (ROOT / "benchmarks").rglob(f"*.{kind}")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def _source_of(uri: str) -> str | None:
    """Return the path in the repository that a page was made from, None for generated ones."""
    for source, target in MOVED.items():
        if uri == target:
            return source
    if uri.startswith("api/"):
        return None
    return uri if uri.startswith("benchmarks/") else f"docs/{uri}"


def _link(match: re.Match[str], source: str, page: Page, files: Files) -> str:
    before, target, after = match.groups()
    if target.startswith(("#", "http://", "https://", "mailto:")):
        return match.group()
    path, mark, anchor = target.partition("#")
    in_repository = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    uri = MOVED.get(in_repository, in_repository.removeprefix("docs/"))
    if files.get_file_from_path(uri) is not None:
        relative = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
        return f"{before}{relative}{mark}{anchor}{after}"
    if (ROOT / in_repository).exists():
        return f"{before}{SOURCE_CODE}{in_repository}{after}"
    raise PluginError(f"{source}: the link {target} leads to no file")


def _reference() -> dict[str, str]:
    """Return the pages of the API reference, one entry per public name of the package."""
    names: dict[str, list[str]] = {page: [] for page in TITLES}
    for name in sorted(labelspace.__all__, key=str.lower):
        if not name.startswith("_"):
            value = getattr(labelspace, name)
            page = PAGES[value.__module__.split(".")[1]]
            names[page].append(f"{value.__module__}.{value.__qualname__}")
    names["methods"].insert(0, "labelspace.methods.base.Method")
    names["errors"] = ["labelspace.errors"]
    pages = {f"api/{page}.md": _reference_page(page, names[page]) for page in TITLES}
    return {"api/index.md": _reference_index(names), **pages}


def _reference_page(page: str, names: list[str]) -> str:
    text = [f"# {TITLES[page]}\n"]
    if page == "methods":
        text.append(
            "All methods share the interface of `Method`. Their parameters are keyword arguments "
            "of the class; each method's page has the table.\n"
        )
    for name in names:
        text.append(f"::: {name}\n")
        if page == "errors":
            hidden = ("show_root_heading: false", "show_root_toc_entry: false")
            text.append("    options:\n" + "".join(f"      {line}\n" for line in hidden))
        elif name.endswith((".Method", ".Tagger")):  # their base classes only divide long files
            text.append("    options:\n      inherited_members: true\n")
        elif page == "methods":
            text.append("    options:\n      members: false\n")
            method = getattr(labelspace, name.rpartition(".")[2]).name
            there = "baselines" if method in ("most-common", "random") else method
            text.append(f"\nParameters and figures: [{method}](../methods/{there}.md).\n")
    return "\n".join(text)


def _reference_index(names: dict[str, list[str]]) -> str:
    text = [
        "# API reference\n",
        "Everything here is imported from `labelspace` itself, for instance `labelspace.train`.\n",
    ]
    for page, listed in names.items():
        text.append(f"## {TITLES[page]}\n")
        if page == "errors":
            text.append("All errors derive from `LabelspaceError`: [errors](errors.md).\n")
            continue
        short = [name.rpartition(".")[2] for name in listed]
        links = [f"[`{s}`]({page}.md#{name})" for s, name in zip(short, listed, strict=True)]
        text.append(", ".join(links) + "\n")
    return "\n".join(text)
