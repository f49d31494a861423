"""Train the members of an ensemble one after the other, under one checkpoint.

A checkpoint of the current member holds the weights of those that are done, so that a stopped run
is resumed where it was. Callbacks get one run, which starts with the first member and ends with the
last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from labelspace.nn.trainer import Trainer

Arrays = dict[str, np.ndarray]
_DONE = "done"


class MemberTrainer(Trainer):
    """Trains the next member of an ensemble.

    Parameters
    ----------
    done : list of dict of ndarray
        Weights of the members before this one; a loaded checkpoint fills it.
    n_members : int
    seed : int
        Seed of the ensemble, from which those of its members derive.
    **options
        Other parameters of Trainer.
    """

    def __init__(self, done: list[Arrays], n_members: int, *, seed: int, **options: Any) -> None:
        super().__init__(seed=seed, **options)
        self.done, self.n_members, self.first_seed = done, n_members, seed
        self._choose_seed()

    def _choose_seed(self) -> None:
        # Far apart, so that runs with neighbouring seeds share no member.
        self.seed = self.first_seed + 1_000_003 * len(self.done)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, progress = super().state()
        for number, member in enumerate(self.done):
            arrays |= {f"{_DONE}/{number}/{name}": array for name, array in member.items()}
        return arrays, {**progress, _DONE: len(self.done)}

    def load_state(self, arrays: Mapping[str, np.ndarray], progress: Mapping[str, Any]) -> None:
        self.done[:] = [{} for _ in range(progress[_DONE])]
        mine = {}
        for key, array in arrays.items():
            group, _, rest = key.partition("/")
            if group == _DONE:
                number, _, name = rest.partition("/")
                self.done[int(number)][name] = np.array(array)
            else:
                mine[key] = array
        super().load_state(mine, {k: v for k, v in progress.items() if k != _DONE})
        self._choose_seed()

    def _close_epoch(self) -> None:
        super()._close_epoch()
        if self.n_members > 1:  # the history is one list over all members
            self.progress.history[-1]["learner"] = len(self.done) + 1

    def _notify(self, event: str) -> None:
        first, last = len(self.done) == 0, len(self.done) == self.n_members - 1
        if (event == "on_start" and not first) or (event == "on_end" and not last):
            return
        super()._notify(event)
