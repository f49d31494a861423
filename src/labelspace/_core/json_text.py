"""JSON of files that are not trusted: finite numbers, and nested no deeper than any of ours."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

from labelspace.errors import ModelFormatError

_DEEPEST = 40  # the settings of a tokenizer are nested deepest of all
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SHOWN = 120  # letters of a reason that are shown


def parsed_json(content: bytes) -> Any:
    """Return the JSON value in UTF-8; raise ValueError, in one line, for anything else."""
    try:
        value = json.loads(content.decode(), parse_constant=_finite, parse_float=_finite)
        if _SURROGATE.search(content):  # half a pair is no text, and cannot be written or printed
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a text in it has half of a surrogate pair") from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise ValueError(shortened(error)) from None
    if _is_deeper(value, _DEEPEST):
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    return value


def checked_json(letters: np.ndarray) -> Any:
    """Return the JSON value that an array of a model has; raise ModelFormatError if there is none.

    The array is declared as `letters` by the model's schema.
    """
    try:
        return parsed_json(letters.tobytes())
    except ValueError as error:
        raise ModelFormatError(
            f"the settings in its arrays are no JSON: {error}: restore it from a copy"
        ) from None


def shortened(text: object) -> str:
    """Return a text of a file or a library's error in one short line, for an error of ours."""
    line = " ".join(str(text).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text} is not finite")
    return value


def _is_deeper(value: Any, depth: int) -> bool:
    """Return whether lists and objects are nested deeper than so many."""
    level = [value]
    for _ in range(depth):
        containers = [each for each in level if type(each) is list or type(each) is dict]
        if not containers:
            return False
        level = [
            part
            for each in containers
            for part in (each.values() if type(each) is dict else each)
            if type(part) is list or type(part) is dict
        ]
    return bool(level)
