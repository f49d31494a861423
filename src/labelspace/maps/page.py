"""The map as one HTML file that needs nothing else: no server, no network.

Labels go into it from the most frequent to the rarest. All data, names included, are one base64
text, so that no name can be taken for markup; the page's policy runs no other script than its own.
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

from labelspace.maps.colours import INK, QUIET, RING, SELECTED, STOPS, UNKNOWN, levels, ticks
from labelspace.maps.disk import ring_distances, view_radius
from labelspace.maps.edges import most_frequent
from labelspace.maps.label_map import LabelMap

_FAR = np.iinfo(np.uint16).max  # distances are kept in steps of the largest over this


def map_page(label_map: LabelMap) -> str:
    """The map as HTML."""
    model, how = label_map.notes
    script = ("disk.js", "data.js", "search.js", "paint.js", "map.js")
    texts = {"title": label_map.title, "model": model, "how": how}
    return filled("map.html", "map.css", script, texts, packed_map(label_map))


def filled(
    template: str, style: str, scripts: Sequence[str], texts: dict[str, str], data: bytes
) -> str:
    """A template of `page/` with its style, scripts, texts and data in place."""
    looks, does = part(style), "".join(part(name) for name in scripts)
    # Hashes allow just this style and this script; nothing may be fetched from anywhere.
    policy = f"default-src 'none'; style-src '{_hash(looks)}'; script-src '{_hash(does)}'"
    values = {
        **{name: escape(text) for name, text in texts.items()},
        "policy": policy,
        "style": looks,
        "script": does,
        "data": base64.b64encode(data).decode("ascii"),
    }
    # In one pass, so that a mark inside a text stays a text.
    return re.sub(r"{{(\w+)}}", lambda mark: values[mark[1]], part(template))


def part(name: str) -> str:
    """A file of `page/`."""
    return files("labelspace.maps").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def packed_map(label_map: LabelMap) -> bytes:
    """What the page's script reads, frequent labels first: safetensors, gzipped."""
    order = np.argsort(-label_map.weights, kind="stable")
    number = np.empty(len(order) + 1, np.int32)
    number[order], number[-1] = np.arange(len(order)), -1  # the pad -1 stays -1
    points = label_map.points[order]
    distances = label_map.near.distances[order]
    farthest = float(np.max(distances, where=np.isfinite(distances), initial=1e-9))
    steps = np.round(np.minimum(distances / farthest, 1.0) * _FAR)
    radius = view_radius(points)
    settings = {
        "radius": radius,
        "rings": ring_distances(radius).tolist(),
        "farthest": farthest,
        "counted": label_map.counts is not None,
        "ticks": ticks(int(label_map.weights.max(initial=1))),
        "colours": {
            "stops": STOPS,
            "unknown": UNKNOWN,
            "selected": SELECTED,
            "ring": RING,
            "quiet": QUIET,
            "ink": INK,
        },
    }
    arrays = {
        "points": np.stack([points.real, points.imag], axis=1).astype(np.float32),
        "counts": label_map.weights[order].astype(np.uint32),
        "levels": levels(label_map.weights[order]).astype(np.float32),
        "edges": number[most_frequent(label_map.edges, label_map.weights, len(label_map.edges))],
        "near": number[label_map.near.labels[order]],
        "distances": steps.astype(np.uint16),
        "names": json_bytes([label_map.names[label] for label in order]),
    }
    return gzip.compress(save(arrays, {"settings": json.dumps(settings)}), 6, mtime=0)


def json_bytes(value: object) -> np.ndarray:
    """As an array, to stand among arrays."""
    return np.frombuffer(json.dumps(value, ensure_ascii=False).encode(), np.uint8)
