"""JSON of files that are not trusted: depth, numbers, half characters, errors in one line."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace._core.json_text import checked_json, parsed_json, shortened
from labelspace.errors import ModelFormatError


@pytest.mark.parametrize(
    "text", ['{"a": [1, 2.5, null, true, "x"]}', '"\\ud83d\\ude00"', "[" * 40 + "]" * 40, "-0.0"]
)
def test_plain_values_are_read(text):
    import json

    assert parsed_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"NaN", b"[1e400]", b"-Infinity", b'"\\ud800"', b'{"\\udc00": 1}', b"\xff",
        b"[" * 42 + b"]" * 42, b'{"a":' * 42 + b"1" + b"}" * 42, b"[" * 100_000, b"1" * 5000,
    ],
)  # fmt: skip
def test_what_no_file_of_ours_has_is_refused_in_a_line(content):
    with pytest.raises(ValueError) as error:
        parsed_json(content)
    assert len(str(error.value)) < 200
    assert "\n" not in str(error.value)
    with pytest.raises(ModelFormatError, match="no JSON"):
        checked_json(np.frombuffer(content, np.uint8))


def test_a_reason_is_one_short_line():
    assert shortened("a\n  b") == "a b"
    assert len(shortened("x" * 5000)) < 200
