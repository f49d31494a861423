"""The time limit of a fusion: which members fit into the time that is left."""

from __future__ import annotations

import json
import time

from scipy.sparse import csr_matrix

from labelspace.components.near_duplicates import WORK_PER_SECOND
from labelspace.methods.fusion.columns import MemberColumns
from labelspace.methods.fusion.plan import SHORT_SECONDS, Member
from labelspace.methods.timing import TimingSample

MARGIN = 1.1  # time that is left over does less harm than a limit that is exceeded
DUPLICATES = 0.1  # share of the limit for the search for near duplicates
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
        self._sample = TimingSample(X, Y, seed, columns.of, columns.arguments)

    @property
    def duplicates_work(self) -> float | None:
        """Return the limit of the search for near duplicates; None: that of the search itself."""
        return None if self.seconds is None else DUPLICATES * self.seconds * WORK_PER_SECOND

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
        return self._sample.seconds_of(name, parameters, epochs)
