"""Parameters of members of a fusion, given to the fusion."""

from __future__ import annotations

import pytest

from labelspace.errors import ParameterError
from labelspace.methods.fusion.member_settings import joined, read_settings
from labelspace.methods.fusion.method import Fusion
from support.planted import planted


def test_settings_are_read_as_they_were_joined():
    text = joined({"linear.C": 0.5, "linear.loss": "logistic", "knn.neighbours": 7})
    assert read_settings(text) == {
        "linear": {"C": 0.5, "loss": "logistic"},
        "knn": {"neighbours": 7},
    }
    assert joined({}) is None
    assert read_settings(None) == read_settings("") == {}


def test_members_are_fitted_with_them():
    X, Y = planted(200)
    model = Fusion(members="linear,knn", member_settings="knn.neighbours=7; linear.C=0.25")
    model.fit(X, Y)
    found = {member.name: member.get_params() for member in model.members_}
    assert found["knn"]["neighbours"] == 7
    assert found["linear"]["C"] == 0.25


def test_on_the_command_line_each_is_given_by_itself():
    parsed = Fusion.parse_parameters({"members": "linear,knn", "linear.C": "0.5"})
    assert parsed == {"members": "linear,knn", "member_settings": "linear.C=0.5"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("linear", "METHOD.NAME=VALUE"),
        ("C=1", "METHOD.NAME=VALUE"),
        ("fusion.shortlist=5", "METHOD.NAME=VALUE"),
        ("nothing.C=5", "METHOD.NAME=VALUE"),
        ("linear.D=5", "D"),
        ("linear.C=minus", "linear.C"),
    ],
)
def test_others_are_refused(text, message):
    with pytest.raises(ParameterError, match=message):
        Fusion(member_settings=text).check_parameters()


def test_settings_of_a_method_that_is_no_member_are_refused():
    X, Y = planted(100)
    with pytest.raises(ParameterError, match=r"hierarchicalxc is not a member.*fusion\.members"):
        Fusion(members="linear,knn", member_settings="hierarchicalxc.beam=5").fit(X, Y)
