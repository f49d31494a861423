"""`labelspace cache`: the size of the cache, and removing what is in it."""

from __future__ import annotations

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_mapping, print_message

app = typer.Typer(
    help="Show or clear the cache of parsed files and vectors of texts.\n\n"
    "Example: labelspace cache info",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def info(as_json: options.AsJson = False) -> None:
    """Show where the cache is, how many entries it has, its size and its limit.

    It holds vectors and words of your texts, and arrays of parsed files. LABELSPACE_CACHE sets its
    path, LABELSPACE_CACHE_BYTES its limit; 0 turns it off.

    Example: labelspace cache info
    """
    from labelspace._core.cache import cache_folder, cache_limit, entries
    from labelspace._core.machine import in_words

    folder, limit = cache_folder(), cache_limit()
    found = entries(folder)
    size = sum(entry.size for entry in found)
    if as_json:
        print_json(
            {"path": str(folder), "entries": len(found), "bytes": size, "limit_bytes": limit}
        )
        return
    shown_limit = in_words(limit) if limit else "0 B: the cache is off"
    print_mapping(
        {"path": folder, "entries": len(found), "size": in_words(size), "limit": shown_limit},
        "cache",
    )


@app.command()
def clear(as_json: options.AsJson = False) -> None:
    """Remove all entries of the cache; other files in its folder stay.

    Example: labelspace cache clear
    """
    from labelspace._core.cache import cache_folder, entries, trim
    from labelspace._core.machine import in_words

    folder = cache_folder()
    gone = trim(folder, 0)
    size, left = sum(entry.size for entry in gone), len(entries(folder))
    if as_json:
        print_json({"path": str(folder), "removed": len(gone), "bytes": size, "left": left})
        return
    print_message(f"{folder}: {len(gone)} entries removed, {in_words(size)}")
    if left:
        print_message(
            f"{folder}: {left} entries could not be removed: other programs or users hold them"
        )
