"""Which members a fusion has: by the size of the data, by name, or as many as the time allows."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.components.holdout import held_out_size
from labelspace.components.training_data import Shape
from labelspace.methods.linear import usual_negatives
from labelspace.methods.registry import method_class

FEW_EXAMPLES, MANY_EXAMPLES = 30_000, 300_000
# Examples that a tree is trained on to see how quick this machine is on such data; and on a few
# before, as the first to run waits for compiled loops to be loaded.
SAMPLE, WARM_UP = 2000, 50
TREES: dict[str, Any] = {"tree": "kmeans", "loss": "squared_hinge", "C": 1.0, "beam": 7}
# Raw neighbours would cost more than all else of an answer; 64 dimensions say as much as 160.
SPACE: dict[str, Any] = {
    "ensemble": 1, "raw": False, "dim": 160, "reduce": 64, "more_epochs": 0, "search": "clusters",
    "neighbours": 50, "recall": 0.97,
}  # fmt: skip
SPACE_STEPS, SPACE_BATCH = 600, 512
# Of many examples each is seen a few times: long steps, and hardly any dropout.
QUICK: dict[str, Any] = {"epochs": 5, "keep": 0.9, "dropout": 0.0, "lr": 0.01}
# What members take to train, as multiples of what the sample says a tree takes: more than on most
# of six sets, as time that is given and not used harms less than time that is passed.
TREE_COST, NEIGHBOURS_COST, SPACE_COST, QUICK_COST = 1.3, 0.05, 9.0, 4.0
LINEAR_COST = {"all": 2.5, "hard": 1.5}  # by the negatives
SPACE_SECONDS = 8.0  # that a space takes at least: torch is loaded, and some hundred steps are made
EXAMPLES_A_LABEL = 10  # on average, below which spaces add next to nothing
COMMON_FEATURES = 32  # from which on they are taken for dense ones beside sparse ones
# Labels of few examples are told apart by more negatives, and stand further down in a tree.
RARE_LABELS: dict[str, dict[str, Any]] = {"linear": {"shortlist": 200}, "tree": {"beam": 20}}


class Step(NamedTuple):
    """A member, and what training it takes, as a multiple of one tree of classifiers.

    judges   it ranks what members before it list, and finds no labels of its own
    seconds  that it takes at least, on however few examples
    """

    name: str
    settings: dict[str, Any]
    cost: float = 0.0
    can_rerank: bool = False
    seconds: float = 0.0


def after_cut(shape: Shape, share: float) -> Shape:
    """The shape of what is left to train on when this share of the examples is held out."""
    points = shape.points - held_out_size(share, shape.points)
    left = points / max(1, shape.points)
    return replace(
        shape,
        points=points,
        feature_nnz=round(left * shape.feature_nnz),
        label_nnz=round(left * shape.label_nnz),
    )


def plans(members: str, shape: Shape, seconds: float | None) -> list[list[Step]]:
    """The members that may be trained, as lists of which the first that fits the time is taken.

    The last is for whoever has no time for any other; without a limit there is one alone.
    """
    usual = steps(members, shape)
    if members.strip() != "auto" or seconds is None:
        return [usual]
    return [*longer(usual, shape)[::-1], *briefer(usual), shorter(shape)]


def steps(members: str, shape: Shape) -> list[Step]:
    """The members to train, in this order.

    A linear classifier a label, and what sees what it does not: a learned space whose neighbours
    vote. Of very many examples it would take too long, of labels with a handful of examples it
    learns too little, and it needs torch. Raw neighbours stand in for it then, and where labels are
    too many for classifiers to be trained against all examples, a tree of classifiers beside them:
    there the others find labels, and the linear classifiers judge what they list. With dense
    features few examples are enough for a space.
    """
    if members.strip() != "auto":
        return [Step(name.strip(), {}) for name in members.split(",")]
    fits = find_spec("torch") is not None and shape.points < MANY_EXAMPLES
    negatives = usual_negatives(shape)
    if negatives != "hard":
        linear = Step("linear", {"negatives": negatives}, LINEAR_COST[negatives])
        return [linear, space(shape.points) if fits else neighbours(shape)]
    rare = shape.label_nnz < EXAMPLES_A_LABEL * shape.labels
    if fits and not rare and shape.points >= FEW_EXAMPLES:
        linear = Step("linear", {"negatives": "hard"}, LINEAR_COST["hard"], can_rerank=True)
        return [space(shape.points), linear]
    own = RARE_LABELS if rare and shape.points >= FEW_EXAMPLES else {"linear": {}, "tree": {}}
    tree = Step("hierarchicalxc", {**TREES, **own["tree"], "ensemble": 1}, TREE_COST)
    finders = [tree, neighbours(shape)]
    if has_dense(shape) and fits and shape.points < FEW_EXAMPLES:
        finders.append(space(shape.points))
    settings = {**own["linear"], "negatives": "hard"}
    return [*finders, Step("linear", settings, LINEAR_COST["hard"], can_rerank=True)]


def shorter(shape: Shape) -> list[Step]:
    """Where time is short for the members that suit the data: each is worth less than the last."""
    tree = Step("hierarchicalxc", {**TREES, "ensemble": 1}, TREE_COST)
    negatives = usual_negatives(shape)
    linear = Step("linear", {"negatives": negatives}, LINEAR_COST[negatives])
    few = [neighbours(shape), tree, linear]
    return [*few, space(shape.points)] if find_spec("torch") else few


def longer(plan: list[Step], shape: Shape) -> list[list[Step]]:
    """The plan, and longer ones for those who have more time: other members, then more spaces."""
    others = [step for step in shorter(shape) if step.name not in {own.name for own in plan}]
    more = [
        step._replace(settings={**step.settings, "seed": seed})
        for seed in (1, 2)
        for step in [*plan, *others]
        if step.name == "dxml"
    ]
    return [plan, *([*plan, *others, *more[:count]] for count in range(len(more) + 1))]


def briefer(plan: list[Step]) -> list[list[Step]]:
    """The plan for those who have less time: its spaces see the examples half, a quarter as often.

    On delicious half is worth 0.6 points of P@5 less, and 3 more than no space at all.
    """

    def brief(step: Step, share: float) -> Step:
        if step.name != "dxml":
            return step
        settings = {**step.settings, "epochs": max(1, round(share * step.settings["epochs"]))}
        return step._replace(
            settings=settings, cost=share * step.cost, seconds=share * step.seconds
        )

    return [[brief(step, share) for step in plan] for share in (0.5, 0.25)]


def has_dense(shape: Shape) -> bool:
    """Whether there are dense features beside sparse ones."""
    return COMMON_FEATURES <= shape.common_features <= shape.features / 2


def neighbours(shape: Shape) -> Step:
    """By sparse features alone if there are dense ones, which make every example a neighbour."""
    return Step("knn", {"common": 0.5} if has_dense(shape) else {}, NEIGHBOURS_COST)


def space(n_examples: int) -> Step:
    """Fewer steps than `dxml` takes alone: on debtags half of them added as much to the others."""
    if n_examples >= FEW_EXAMPLES:
        return Step("dxml", {**SPACE, **QUICK}, QUICK_COST, seconds=SPACE_SECONDS)
    epochs = min(max(SPACE_STEPS * SPACE_BATCH // n_examples, 6), 30)
    return Step("dxml", {**SPACE, "epochs": epochs}, SPACE_COST, seconds=SPACE_SECONDS)


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
        labelled = np.flatnonzero(np.diff(Y.indptr))
        rows = np.random.default_rng([seed, X.shape[0]]).permutation(labelled)[:SAMPLE]
        for chosen in (rows[:WARM_UP], rows):
            start = time.monotonic()
            method_class("hierarchicalxc")(**TREES, ensemble=1, validation=0.0).fit(
                X[chosen], Y[chosen]
            )
        self.tree = (time.monotonic() - start) * X.shape[0] / max(1, len(rows))

    def covers(self, plan: list[tuple[Step, bool]]) -> bool:
        """Whether there is time for all of these; with each, whether it is trained twice."""
        if self.seconds is None:
            return True
        left = self.seconds - (time.monotonic() - self.start)
        return sum(self._needs(step) * (1 + twice) for step, twice in plan) <= left

    def allows(self, step: Step, twice: bool) -> bool:
        """Whether the member fits into the time left; it is then taken to be trained.

        twice  whether it is trained again in the end
        """
        if self.seconds is None:
            return True
        left = self.seconds - (time.monotonic() - self.start) - self.promised
        needed = self._needs(step)
        if needed * (1 + twice) > left:
            return False
        self.promised += twice * needed
        return True

    def _needs(self, step: Step) -> float:
        """Seconds that the member takes to train once."""
        return max(step.cost * self.tree, step.seconds)
