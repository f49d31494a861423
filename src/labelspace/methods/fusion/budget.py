"""The time limit of a fusion: which members fit into the time that is left."""

from __future__ import annotations

import time

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.methods.fusion.plan import TREE_PARAMETERS, Member
from labelspace.methods.registry import method_class

SAMPLE = 2000  # examples of the tree that measures the speed of this machine on the data
WARM_UP = 50  # examples of a tree before it, so that loading compiled loops is not measured


class TrainingBudget:
    """Estimates training times, and compares them with the time that is left.

    Parameters
    ----------
    seconds : float or None
        Time limit for all training, from now on; None for no limit.

    Attributes
    ----------
    tree_seconds : float
        Estimated training time of one tree on all examples; `calibrate` sets it.
    reserved : float
        Seconds that will be needed to refit members that are already fitted.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self.start = seconds, time.monotonic()
        self.tree_seconds = 0.0
        self.reserved = 0.0

    def calibrate(self, X: csr_matrix, Y: csr_matrix, seed: int) -> None:
        """Train a tree on a sample of the examples, and estimate its time on all of them."""
        if self.seconds is None:
            return
        labelled = np.flatnonzero(np.diff(Y.indptr))
        rows = np.random.default_rng([seed, X.shape[0]]).permutation(labelled)[:SAMPLE]
        for sample in (rows[:WARM_UP], rows):
            start = time.monotonic()
            tree = method_class("hierarchicalxc")(**TREE_PARAMETERS, validation=0.0)
            tree.fit(X[sample], Y[sample])
        self.tree_seconds = (time.monotonic() - start) * X.shape[0] / max(1, len(rows))

    def fits(self, plan: list[tuple[Member, bool]]) -> bool:
        """Return whether all members of a plan fit; with each, whether it is refitted."""
        if self.seconds is None:
            return True
        needed = sum(self._seconds_of(member) * (1 + refits) for member, refits in plan)
        return needed <= self.seconds - (time.monotonic() - self.start)

    def reserve(self, member: Member, refits: bool) -> bool:
        """Return whether a member fits into the time left; if so, reserve the time to refit it."""
        if self.seconds is None:
            return True
        left = self.seconds - (time.monotonic() - self.start) - self.reserved
        needed = self._seconds_of(member)
        if needed * (1 + refits) > left:
            return False
        self.reserved += refits * needed
        return True

    def _seconds_of(self, member: Member) -> float:
        """Return the estimated seconds to fit the member once."""
        return max(member.cost * self.tree_seconds, member.seconds)
