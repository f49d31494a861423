"""The map as one HTML file, which needs no server and no network.

Labels are stored from the most frequent to the rarest. All data, including names, are one base64
text, so that no name can act as markup; the content security policy allows the page's script only.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

import numpy as np
from safetensors.numpy import save

from labelspace.maps.disk import view_radius
from labelspace.maps.label_map import (
    LabelMap,
    frequency_levels,
    frequency_ticks,
)

_STYLES = ("panel.css", "map.css")
_FAR = np.iinfo(np.uint16).max  # distances are stored as multiples of the largest over this


def map_page(label_map: LabelMap) -> str:
    """Return the map as an HTML page that needs no other file."""
    script = ("disk.js", "data.js", "search.js", "paint.js", "map.js", "alone.js")
    texts = {"title": label_map.title, "model": label_map.notes[0], "star": ""}
    return filled("map.html", script, texts, packed_map(label_map))


def filled(template: str, scripts: Sequence[str], texts: dict[str, str], data: bytes) -> str:
    """Return a template of `page/` with its styles, scripts, texts and data."""
    looks, does = ("".join(map(part, names)) for names in (_STYLES, scripts))
    # Hashes allow only this style and this script; nothing may be fetched.
    policy = f"default-src 'none'; style-src '{_hash(looks)}'; script-src '{_hash(does)}'"
    values = {
        **{name: escape(text) for name, text in texts.items()},
        "policy": policy,
        "style": looks,
        "script": does,
        "data": base64.b64encode(data).decode("ascii"),
    }
    return assembled(part(template), values)


def assembled(template: str, values: dict[str, str]) -> str:
    """Return a template with the parts that it names, such as {{panel.html}}, and with values."""

    def whole(text: str) -> str:
        return re.sub(r"{{(\w+\.html)}}\n", lambda mark: whole(part(mark[1])), text)

    # Values in one pass, so that a placeholder inside a text is not replaced.
    return re.sub(r"{{(\w+)}}", lambda mark: values[mark[1]], whole(template))


def part(name: str) -> str:
    """Return the content of a file of `page/`."""
    return files("labelspace.maps").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def packed_map(label_map: LabelMap) -> bytes:
    """Return the data of the page's script, frequent labels first: safetensors, gzipped."""
    order = np.argsort(-label_map.weights, kind="stable")
    number = np.empty(len(order) + 1, np.int32)
    number[order], number[-1] = np.arange(len(order)), -1  # the pad -1 stays -1
    points = label_map.points[order]
    distances = label_map.near.distances[order]
    farthest = float(np.max(distances, where=np.isfinite(distances), initial=1e-9))
    steps = np.round(np.minimum(distances / farthest, 1.0) * _FAR)
    settings = {
        "radius": view_radius(points),
        "farthest": farthest,
        "counted": label_map.counts is not None,
        "ticks": frequency_ticks(int(label_map.weights.max(initial=1))),
        "colours": label_map.colours,
        "heads": number[label_map.heads].tolist(),
        "titles": label_map.titles,
        "notes": label_map.notes,
    }
    arrays = {
        "points": np.stack([points.real, points.imag], axis=1).astype(np.float32),
        "counts": label_map.weights[order].astype(np.uint32),
        "levels": frequency_levels(label_map.weights[order]).astype(np.float32),
        "parent": number[label_map.parent[order]],
        "group": label_map.group[order].astype(np.int32),
        "near": number[label_map.near.labels[order]],
        "distances": steps.astype(np.uint16),
        "names": json_bytes([label_map.names[label] for label in order]),
    }
    if label_map.ids != label_map.names:
        arrays["ids"] = json_bytes([label_map.ids[label] for label in order])
    return gzip.compress(save(arrays, {"settings": json.dumps(settings)}), 6, mtime=0)


def json_bytes(value: object) -> np.ndarray:
    """Return a value as an array of JSON bytes, for a safetensors file."""
    return np.frombuffer(json.dumps(value, ensure_ascii=False).encode(), np.uint8)
