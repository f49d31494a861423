"""Commands that are killed: old data are whole, and the next run ends as an undisturbed one.

A few moments each; `make attack` tries a hundred, on more operations.
"""

from __future__ import annotations

import signal

import pytest

from support.failing_disk import Fault

pytestmark = pytest.mark.xdist_group("failures")

KILLED = [
    "train glas", "train linear", "train fusion", "save", "update", "predict parquet",
    "synth", "cache", "journal", "tune",
]  # fmt: skip


@pytest.mark.parametrize("name", KILLED)
def test_a_kill_leaves_old_data_whole_and_the_next_run_is_as_if_there_had_been_none(name, attacks):
    attack, dice = attacks.of(name), attacks.dice(name)
    if not attack.nursery.can_fail:
        seconds = dice.uniform(0.2, 0.9) * attack.reference.seconds
        assert attack.kill_after(seconds) == []
        return
    # At a call in the midst of it, and at one of the last, when files take their names.
    calls = attack.reference.calls
    for call in (dice.randrange(calls), calls - 1 - dice.randrange(min(calls, 6))):
        assert attack.kill_at(call) == []


def test_data_are_never_beside_label_names_of_others(attacks):
    attack = attacks.of("convert out.txt")
    if not attack.nursery.can_fail:
        pytest.skip("there is no C compiler")
    for call in range(attack.reference.calls):
        assert attack.kill_at(call) == []


def test_commands_are_killed_where_they_should_be(attacks):
    attack = attacks.of("save")
    if not attack.nursery.can_fail:
        pytest.skip("there is no C compiler")
    ended = attack.nursery.run([":save", "other", "model"], attack._fresh(), Fault("kill", 5))
    assert ended.code == -signal.SIGKILL
