"""The time limit of a fusion: which members fit into the time that is left."""

from __future__ import annotations

import json
import time

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.methods.fusion.columns import MemberColumns
from labelspace.methods.fusion.plan import SHORT_SECONDS, Member
from labelspace.methods.registry import method_class

SAMPLE = 1000  # examples on which a member is trained to measure its speed on the data
HELD = 100  # further examples, which members that calibrate themselves need
WARM_UP = 50  # examples of a training before it, if a member has epochs
MORE_EPOCHS = 3  # of a second training, if a member has epochs: it takes so many epochs longer
MARGIN = 1.1  # time that is left over does less harm than a limit that is exceeded
COMBINATION = 0.15  # seconds to fit the combination: kept free


class TrainingBudget:
    """Measures training times on a sample, and compares them with the time that is left.

    A member is measured when a plan with it may fit, so that little of a short time is lost.

    Parameters
    ----------
    seconds : float or None
        Time limit for all training, from now on; None for no limit.

    Attributes
    ----------
    is_short : bool
        Whether there is no time for a hold-out.
    reserved : float
        Seconds that will be needed to refit members that are already fitted.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self.start = seconds, time.monotonic()
        self.is_short = seconds is not None and seconds < SHORT_SECONDS
        self.reserved = 0.0
        self._times: dict[str, tuple[float, float]] = {}

    def calibrate(self, X: csr_matrix, Y: csr_matrix, columns: MemberColumns, seed: int) -> None:
        """Set the examples that members are going to be trained on."""
        self._X, self._Y, self._columns = X, Y, columns
        labelled = np.flatnonzero(np.diff(Y.indptr))
        self._rows = np.random.default_rng([seed, X.shape[0]]).permutation(labelled)

    def left(self) -> float:
        """Return the seconds that are left for members."""
        assert self.seconds is not None
        return self.seconds - (time.monotonic() - self.start) - COMBINATION

    def fits(self, plan: list[tuple[Member, bool]]) -> bool:
        """Return whether all members of a plan fit; with each, whether it is refitted."""
        if self.seconds is None:
            return True
        # What is known comes first: measuring a member that cannot fit would cost time.
        needed = [member.seconds * (1 + refits) for member, refits in plan]
        order = sorted(range(len(plan)), key=lambda place: plan[place][0].seconds)
        for place in order:
            if sum(needed) > self.left():
                return False
            member, refits = plan[place]
            needed[place] = self.seconds_of(member) * (1 + refits)
        return sum(needed) <= self.left()

    def reserve(self, member: Member, refits: bool) -> bool:
        """Return whether a member fits into the time left; if so, reserve the time to refit it."""
        if self.seconds is None:
            return True
        needed = self.seconds_of(member)
        if needed * (1 + refits) > self.left() - self.reserved:
            return False
        self.reserved += refits * needed
        return True

    def seconds_of(self, member: Member) -> float:
        """Return the estimated seconds to fit the member once."""
        given = {k: v for k, v in member.parameters.items() if k not in ("epochs", "seed")}
        key = json.dumps([member.method, given], sort_keys=True)
        if key not in self._times:
            self._times[key] = self._measured(member.method, given, "epochs" in member.parameters)
        fixed, per_epoch = self._times[key]
        measured = MARGIN * (fixed + per_epoch * member.parameters.get("epochs", 0))
        return float(measured)

    def _measured(
        self, name: str, parameters: dict[str, object], epochs: bool
    ) -> tuple[float, float]:
        """Return the seconds that a member takes on all examples, and those that an epoch adds."""
        rows, held = self._rows[:SAMPLE], self._rows[-HELD:]
        share = len(self._rows) / max(1, len(rows))
        # Compiled loops are loaded before the clock starts: a moment times `share` would be long.
        if epochs:
            self._fit(name, parameters | {"epochs": 1}, rows[:WARM_UP], held)
            short = self._fit(name, parameters | {"epochs": 1}, rows, held)
            longer = self._fit(name, parameters | {"epochs": 1 + MORE_EPOCHS}, rows, held)
            per_epoch = max(0.0, longer - short) / MORE_EPOCHS
            return share * max(0.0, short - per_epoch), share * per_epoch
        self._fit(name, parameters, rows, held)  # all of them: few labels would need fewer loops
        short = self._fit(name, parameters, rows, held)
        if parameters.get("negatives") == "all":  # one classifier per label, of all examples
            in_all, in_sample = (len(np.unique(Y.indices)) for Y in (self._Y, self._Y[rows]))
            return short * share * in_all / max(1, in_sample), 0.0
        return short * share, 0.0

    def _fit(
        self, name: str, parameters: dict[str, object], rows: np.ndarray, held: np.ndarray
    ) -> float:
        """Return the seconds that a member takes to fit on these rows."""
        rows, held = np.sort(rows), np.sort(held)
        X, valid = self._columns.of(name, self._X[rows]), self._columns.of(name, self._X[held])
        start = time.monotonic()
        method_class(name)(**parameters).fit(
            *(X, self._Y[rows]), valid=(valid, self._Y[held]), **self._columns.arguments(name)
        )
        return time.monotonic() - start
