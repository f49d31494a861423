"""Maps of a model's labels as files: an HTML page, a picture, or the label tree as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from labelspace._core.streams import replacing
from labelspace.errors import ParameterError

if TYPE_CHECKING:
    from labelspace.data.dataset import Dataset
    from labelspace.model.tagger import Tagger


def check_map_file(out: Path, *, tree: bool) -> None:
    """Raise ParameterError if the file's suffix is not one that `write_map` writes."""
    endings = (".html",) if tree else (".html", ".png", ".svg")
    if out.suffix not in endings:
        raise ParameterError(f"--out {out}: expected a name that ends in {' or '.join(endings)}")


def write_map(
    tagger: Tagger,
    out: str | Path,
    *,
    title: str = "",
    tree: bool = False,
    data: Dataset | None = None,
) -> int:
    """Write a map of the model's labels to a file and return its size in bytes.

    Parameters
    ----------
    tagger : Tagger
        The model; its method must have label vectors, or with `tree` a label tree or a taxonomy.
    out : path
        The file to write: .html, or .png or .svg for a picture, which needs matplotlib.
    title : str, default ""
        The title of the page or picture.
    tree : bool, default False
        Write the label tree as an outline (.html) instead of a map.
    data : Dataset, optional
        Labelled examples, read by `Tagger.read`, for label frequencies and a taxonomy that the
        model does not have.

    Returns
    -------
    int
        Size of the file in bytes.

    Raises
    ------
    UnsupportedError
        If the model has nothing to draw.

    Examples
    --------
    >>> import tempfile
    >>> import labelspace as ls
    >>> from labelspace.maps.write import write_map
    >>> rows = [
    ...     {"text": "ripe apple", "labels": ["fruit"]},
    ...     {"text": "steel hammer", "labels": ["tool"]},
    ... ]
    >>> tagger = ls.train(rows * 6, method="hierarchicalxc")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_map(tagger, f"{folder}/tree.html", tree=True) > 1000
    True
    """
    target = Path(out)
    check_map_file(target, tree=tree)
    content = _content(tagger, title, data, "tree" if tree else target.suffix)
    with replacing(target) as file:
        file.write(content)
    return len(content)


def _content(tagger: Tagger, title: str, data: Dataset | None, kind: str) -> bytes:
    """Return the content of the file; what it needs is imported for this kind alone."""
    if kind == "tree":
        from labelspace.data.taxonomy import joined
        from labelspace.maps.outline import tree_page

        given = None if data is None else joined([data.taxonomy], tagger.label_names)
        return tree_page(tagger, title, given).encode()
    from labelspace.maps.label_map import label_map

    if kind != ".html":
        from labelspace.maps.picture import picture

        return picture(label_map(tagger, title, data), kind[1:])
    from labelspace.maps.page import map_page

    return map_page(label_map(tagger, title, data)).encode()
