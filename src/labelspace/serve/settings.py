"""What a server is started with, as plain values that its processes pass on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from labelspace.errors import ParameterError

ENVIRONMENT = "LABELSPACE_SERVE"  # where worker processes find the settings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Limits:
    """What one request may be, and how many may wait.

    Attributes
    ----------
    body : int
        Bytes of a request's body, also after it is unpacked.
    text : int
        Characters of a text.
    k : int
        Labels per text, and entries of any other list.
    texts : int
        Texts or feature vectors per request.
    queue : int
        Texts that may wait to be computed, per model.
    batch : int
        Texts that are computed together; 1 computes every request alone.
    seconds : float
        Time from the arrival of a request to its answer.
    """

    body: int = 10_000_000
    text: int = 1_000_000
    k: int = 1000
    texts: int = 1024
    queue: int = 2048
    batch: int = 64
    seconds: float = 30.0


@dataclass(frozen=True)
class Settings:
    """All settings of a server.

    Attributes
    ----------
    models : dict of str to str
        The directory of each model by its name.
    limits : Limits
        Limits of requests.
    watch : bool
        Whether a new version of a model's directory is loaded.
    watch_seconds : float
        Time between two looks at the directories.
    allow_learn : bool
        Whether examples are accepted for updates.
    token_file : str or None
        The file of bearer tokens; None for no authentication.
    origins : tuple of str
        Origins whose pages may read answers (CORS).
    hosts : tuple of str or None
        Names in the Host header that are answered; None for all.
    several : bool
        Whether several processes serve, which share their metrics.
    """

    models: dict[str, str]
    limits: Limits = field(default_factory=Limits)
    watch: bool = False
    watch_seconds: float = 1.0
    allow_learn: bool = False
    token_file: str | None = None
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    several: bool = False

    def to_environment(self) -> None:
        """Store the settings for the processes that this one starts."""
        os.environ[ENVIRONMENT] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Settings:
        """Return the settings that the parent process stored."""
        return cls.of(json.loads(os.environ[ENVIRONMENT]))

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Settings:
        """Return the settings of which `dataclasses.asdict` gave plain values."""
        hosts = None if stored["hosts"] is None else tuple(stored["hosts"])
        changed = {
            "limits": Limits(**stored["limits"]),
            "origins": tuple(stored["origins"]),
            "hosts": hosts,
        }
        return cls(**{**stored, **changed})


def named_models(given: Iterable[str]) -> dict[str, str]:
    """Return the directory of each model by its name, from `NAME=PATH` or the path alone.

    Examples
    --------
    >>> named_models(["models/debtags", "news=/srv/models/2026-11"])
    {'debtags': 'models/debtags', 'news': '/srv/models/2026-11'}
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or "/" in name or Path(text).is_dir():
            name, path = Path(text).resolve().name, text
        if not _NAME.fullmatch(name):
            raise ParameterError(
                f"{text}: the name {name!r} cannot be part of an address; give another one made of "
                f"letters, digits and . _ -, as in NAME={path}"
            )
        if name in found:
            raise ParameterError(
                f"{text}: there are two models {name!r}; give one another name, as in NAME={path}"
            )
        found[name] = path
    return found


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to this address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def answered_hosts(
    host: str, token_file: Path | None, allowed: Sequence[str]
) -> tuple[str, ...] | None:
    """Return the names in the Host header that are answered; None for all.

    On this machine and without tokens only its own names are, and those that are given: otherwise a
    web page could reach the server by a name of its own that resolves to this machine.
    """
    if allowed:
        return (*allowed, "localhost", "127.0.0.1", "[::1]")
    if is_loopback(host) and token_file is None:
        return (host, "localhost", "127.0.0.1", "[::1]")
    return None
