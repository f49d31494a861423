"""Parameters of a fusion's members, given as one text: "linear.C=0.5; dxml.lr=0.01"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labelspace.errors import ParameterError
from labelspace.methods.fusion.plan import Member
from labelspace.methods.parameters import written
from labelspace.methods.registry import method_class, method_names

NAME = "fusion.member_settings"


def joined(settings: Mapping[str, Any]) -> str | None:
    """Return values by names such as "linear.C" as one text; None if there are none."""
    return "; ".join(f"{name}={written(value)}" for name, value in settings.items()) or None


def read_settings(text: str | None) -> dict[str, dict[str, Any]]:
    """Return the checked parameters of each method that the text names.

    Raises
    ------
    ParameterError
        If a method, a parameter or a value is not allowed.
    """
    texts: dict[str, dict[str, str]] = {}
    for part in (text or "").split(";"):
        key, equals, value = part.strip().partition("=")
        method, dot, name = key.strip().partition(".")
        if not part.strip():
            continue
        if not equals or not dot or method == "fusion" or method not in method_names():
            raise ParameterError(
                f"{NAME}: {part.strip()!r} is not METHOD.NAME=VALUE with the name of a member, "
                "such as linear.C=0.5"
            )
        texts.setdefault(method, {})[name.strip()] = value
    return {method: method_class(method).parse_parameters(own) for method, own in texts.items()}


def with_settings(plans: Sequence[list[Member]], text: str | None) -> list[list[Member]]:
    """Return plans whose members have these parameters in place of their own.

    Raises
    ------
    ParameterError
        If no plan has a member that the text names.
    """
    settings = read_settings(text)
    used = {member.method for plan in plans for member in plan}
    for method in settings:
        if method not in used:
            raise ParameterError(
                f"{NAME}: {method} is not a member on these data: {', '.join(sorted(used))}; "
                "name the members by fusion.members"
            )
    return [
        [
            member._replace(parameters={**member.parameters, **settings.get(member.method, {})})
            for member in plan
        ]
        for plan in plans
    ]
