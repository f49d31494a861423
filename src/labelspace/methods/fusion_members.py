"""Which members a fusion has: by the size of the data, by name, or as many as the time allows."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.methods.base import Shape
from labelspace.methods.hierarchicalxc import HierarchicalXC
from labelspace.methods.linear import usual_negatives

FEW_EXAMPLES, MANY_EXAMPLES = 30_000, 300_000
SAMPLE = 2000  # examples that a tree is trained on to see how quick this machine is on such data
TREES: dict[str, Any] = {"tree": "kmeans", "loss": "squared_hinge", "C": 1.0, "beam": 7}
# Raw neighbours would cost more than all else of an answer; 64 dimensions say as much as 160.
SPACE: dict[str, Any] = {
    "ensemble": 1, "raw": False, "dim": 160, "reduce": 64, "more_epochs": 0, "search": "clusters",
    "neighbours": 50, "recall": 0.97,
}  # fmt: skip
SPACE_STEPS, SPACE_BATCH = 600, 512
# Of many examples each is seen a few times: long steps, and hardly any dropout.
QUICK: dict[str, Any] = {"epochs": 5, "keep": 0.9, "dropout": 0.0, "lr": 0.01}
EXAMPLES_A_LABEL = 10  # on average, below which spaces add next to nothing
# Labels of few examples are told apart by more negatives, and stand further down in a tree.
RARE_LABELS: dict[str, dict[str, Any]] = {"linear": {"shortlist": 200}, "tree": {"beam": 20}}


class Step(NamedTuple):
    """A member, and what training it takes, as a multiple of one tree of classifiers.

    judges  it ranks what members before it list, and finds no labels of its own
    """

    name: str
    settings: dict[str, Any]
    cost: float = 0.0
    judges: bool = False


def ladder(n_examples: int) -> list[Step]:
    """Members for a budget: what one adds for the time it takes falls from step to step.

    Costs are means of those measured on six sets.
    """
    tree = Step("hierarchicalxc", {**TREES, "ensemble": 1}, 1.0)
    trees = Step("hierarchicalxc", {**TREES, "ensemble": 2, "seed": 1}, 2.0)
    space, second, third = (
        Step("dxml", {**space_settings(n_examples), "seed": seed}, 6.0) for seed in range(3)
    )
    return [Step("knn", {}, 0.05), tree, Step("linear", {}, 1.5), space, trees, second, third]


def steps(members: str, shape: Shape, budget: float | None) -> list[Step]:
    """The members to train, in this order.

    A linear classifier a label, and what sees what it does not: a learned space whose neighbours
    vote. Of very many examples it would take too long, of labels with a handful of examples it
    learns too little, and it needs torch. Raw neighbours stand in for it then, and where labels are
    too many for classifiers to be trained against all examples, a tree of classifiers beside them:
    there the others find labels, and the linear classifiers judge what they list.
    """
    if members != "auto":
        return [Step(name.strip(), {}) for name in members.split(",")]
    has_torch = find_spec("torch") is not None
    if budget is not None:
        return [step for step in ladder(shape.points) if has_torch or step.name != "dxml"]
    fits = has_torch and shape.points < MANY_EXAMPLES
    space = Step("dxml", space_settings(shape.points))
    neighbours = Step("knn", {})
    if usual_negatives(shape) != "hard":
        return [Step("linear", {}), space if fits else neighbours]
    rare = shape.label_nnz < EXAMPLES_A_LABEL * shape.labels
    if fits and not rare and shape.points >= FEW_EXAMPLES:
        return [space, Step("linear", {}, judges=True)]
    own = RARE_LABELS if rare and shape.points >= FEW_EXAMPLES else {"linear": {}, "tree": {}}
    tree = Step("hierarchicalxc", {**TREES, **own["tree"], "ensemble": 1})
    return [tree, neighbours, Step("linear", own["linear"], judges=True)]


def space_settings(n_examples: int) -> dict[str, Any]:
    """Fewer steps than `dxml` takes alone: on debtags half of them added as much to the others."""
    if n_examples >= FEW_EXAMPLES:
        return {**SPACE, **QUICK}
    return {**SPACE, "epochs": min(max(SPACE_STEPS * SPACE_BATCH // n_examples, 6), 30)}


class Clock:
    """Says whether there is time for another member.

    seconds  that all training may take; None: no limit
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self.start = seconds, time.monotonic()
        self.tree = 0.0  # seconds that a tree is expected to take
        self.promised = 0.0  # seconds of work to come for members that are trained already

    def look(self, X: csr_matrix, Y: csr_matrix, seed: int) -> None:
        """Train a tree on a sample, to know what one takes on all examples."""
        if self.seconds is None:
            return
        rows = np.random.default_rng([seed, X.shape[0]]).permutation(X.shape[0])[:SAMPLE]
        start = time.monotonic()
        HierarchicalXC(**TREES, ensemble=1, validation=0.0).fit(X[rows], Y[rows])
        self.tree = (time.monotonic() - start) * X.shape[0] / max(1, len(rows))

    def allows(self, step: Step, twice: bool) -> bool:
        """Whether the member fits into the time left; it is then taken to be trained.

        twice  whether it is trained again in the end
        """
        if self.seconds is None:
            return True
        left = self.seconds - (time.monotonic() - self.start) - self.promised
        needed = step.cost * self.tree
        if needed * (1 + twice) > left:
            return False
        self.promised += twice * needed
        return True
