"""The members of a fusion: named by the user, or chosen by the size of the data and a time limit.

docs/methods/fusion.md has the figures by which they were chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

from labelspace.components.training_data import Shape
from labelspace.methods.registry import method_class

# Below the first, members are refitted on all examples; from the second on, dxml takes too long.
FEW_EXAMPLES, MANY_EXAMPLES = 30_000, 300_000
TREE_PARAMETERS: dict[str, Any] = {
    "tree": "kmeans", "loss": "squared_hinge", "C": 1.0, "beam": 7, "ensemble": 1,
}  # fmt: skip
# Raw neighbours would take most of the time of a query; 64 dimensions rank as well as 160.
DXML_PARAMETERS: dict[str, Any] = {
    "ensemble": 1, "raw_neighbours": False, "dim": 160, "reduced_dim": 64, "update_epochs": 0,
    "search": "clusters",
    "neighbours": 50, "recall": 0.97, "validate_from": 0.75,
}  # fmt: skip
# With less time there is no hold-out: one member alone is trained, on all examples.
SHORT_SECONDS = 2.0
DXML_STEPS, DXML_BATCH = 600, 512  # training steps on few examples, and examples per step
# On so few examples, neither more epochs nor larger batches improved the combination.
VERY_FEW_EXAMPLES, VERY_FEW_EPOCHS = 10_000, 20
# With many examples, few epochs suffice: a high learning rate, and hardly any dropout.
DXML_MANY_EXAMPLES: dict[str, Any] = {"epochs": 5, "keep": 0.9, "dropout": 0.0, "lr": 0.01}
# Words of a label's text, on average, from which on it is compared with the texts: those of names
# alone are found by `lexical`, and the comparison adds nothing.
LONG_TEXTS = 5
DXML_SECONDS = 2.0  # the least that dxml takes: torch is imported, and some steps are made
# Examples from which on knn reads a part of its index only, and how much. On cuts of tib-gnd's
# training file a fusion ranks better by it than by exact search, which takes four times as long.
BOUNDED_NEIGHBOURS, MAX_POSTINGS = 30_000, 5_000
EXAMPLES_PER_LABEL = 10  # on average; with fewer, dxml improves the ranking by next to nothing
COMMON_FEATURES = 32  # from so many on, common features are a dense part of the input
# Labels with few examples need more negatives, and have deeper leaves in the tree.
RARE_LABELS: dict[str, dict[str, Any]] = {"linear": {"shortlist": 200}, "tree": {"beam": 10}}


class Member(NamedTuple):
    """One member of a fusion, before it is fitted.

    Attributes
    ----------
    method : str
        Name of the method.
    parameters : dict
        Its parameters, where they are not the defaults.
    reranks : bool
        Whether the member only reranks the candidates of the members before it.
    seconds : float
        Least training time, on however few examples.
    """

    method: str
    parameters: dict[str, Any]
    reranks: bool = False
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` needs; seconds are left out."""
        return {"method": self.method, "parameters": self.parameters, "reranks": self.reranks}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Member:
        """Return the member that `to_json` described."""
        return cls(document["method"], document["parameters"], document["reranks"])


def candidate_plans(members: str, shape: Shape, seconds: float | None) -> list[list[Member]]:
    """Return lists of members, of which the last that fits the time limit is trained.

    Parameters
    ----------
    members : str
        Names separated by commas, or "auto".
    shape : Shape
        Size of the training data.
    seconds : float or None
        Time limit.

    Returns
    -------
    list of list of Member
        The quickest first, which is trained if none fits; the last that fits is the best. Without a
        limit, or with named members, there is one list.
    """
    usual = plan_members(members, shape)
    if members.strip() != "auto" or seconds is None:
        return [usual]
    return [*quick_plans(shape), *shortened_plans(usual)[::-1], *extended_plans(usual, shape)]


def plan_members(members: str, shape: Shape) -> list[Member]:
    """Return the members to train without a time limit, in order.

    With "auto": linear classifiers, and dxml, whose neighbours find labels of examples that share
    no word with the query. dxml takes too long on very many examples, ranks labels with few
    examples badly, and needs torch; knn then replaces it. Where labels are too many to train
    classifiers against all examples, a tree finds candidates too, and the linear classifiers only
    rerank; with many examples, a tree and knn or dxml may be left out once they are fitted
    (`selection.py`). With dense features, few examples are enough for dxml. With match columns,
    the labels that count are those with examples, and names in the text propose labels too; so do
    descriptions, if labels have them.
    """
    if members.strip() != "auto":
        return [Member(name.strip(), {}) for name in members.split(",")]
    if shape.match_nnz is not None:
        plain = replace(shape, labels=shape.used_labels, match_nnz=None)
        by_text = [Member("lexical", {})]
        if shape.label_text_nnz >= LONG_TEXTS * shape.labels:
            by_text.append(Member("labeltext", {}))
        return [*by_text, *plan_members(members, plain)]
    dxml_possible = find_spec("torch") is not None and shape.points < MANY_EXAMPLES
    negatives = _linear_negatives(shape)
    if negatives != "hard":
        linear = Member("linear", {"negatives": negatives})
        return [linear, dxml_member(shape.points) if dxml_possible else knn_member(shape)]
    rare = shape.label_nnz < EXAMPLES_PER_LABEL * shape.labels
    own = RARE_LABELS if rare and shape.points >= FEW_EXAMPLES else {"linear": {}, "tree": {}}
    many = shape.points >= FEW_EXAMPLES
    with_dxml = dxml_possible and (not rare if many else has_dense_features(shape))
    plan = [Member("hierarchicalxc", {**TREE_PARAMETERS, **own["tree"]}), knn_member(shape)]
    if with_dxml:
        plan.append(dxml_member(shape.points))
    parameters = {**own["linear"], "negatives": "hard"}
    return [*plan, Member("linear", parameters, reranks=True)]


def quick_plans(shape: Shape) -> list[list[Member]]:
    """Return plans for a time limit that is too short for the usual one, the quickest first."""
    knn, linear = other_members(shape)[:2]
    if linear.parameters["negatives"] == "all":
        return [[linear], [linear, knn]]
    tree, reranking = Member("hierarchicalxc", TREE_PARAMETERS), linear._replace(reranks=True)
    plans = [[tree], [tree, knn], [tree, knn, reranking]]
    return plans if shape.points < FEW_EXAMPLES else [[knn], *plans]


def single_member(shape: Shape) -> Member:
    """Return the member to train alone where there is no time for a hold-out."""
    knn, linear, _ = other_members(shape)
    if linear.parameters["negatives"] == "all":
        return linear
    if shape.points < FEW_EXAMPLES:
        return Member("hierarchicalxc", {**TREE_PARAMETERS, "validation": 0.0})
    return knn


def other_members(shape: Shape) -> list[Member]:
    """Return members without torch that find candidates: knn, linear classifiers and a tree."""
    linear = Member("linear", {"negatives": _linear_negatives(shape)})
    return [knn_member(shape), linear, Member("hierarchicalxc", TREE_PARAMETERS)]


def extended_plans(plan: list[Member], shape: Shape) -> list[list[Member]]:
    """Return the plan, and longer ones: with the other methods, then with more seeds of dxml."""
    used = {member.method for member in plan}
    others = [member for member in other_members(shape) if member.method not in used]
    if find_spec("torch") and "dxml" not in used:
        others.append(dxml_member(shape.points))
    more = [
        member._replace(parameters={**member.parameters, "seed": seed})
        for seed in (1, 2)
        for member in [*plan, *others]
        if member.method == "dxml"
    ]
    return [plan, *([*plan, *others, *more[:count]] for count in range(len(more) + 1))]


def shortened_plans(plan: list[Member]) -> list[list[Member]]:
    """Return the plan with half and with a quarter of the epochs of dxml.

    On delicious half of them cost 0.6 points of P@5, and leaving dxml out 3 more.
    """

    def shortened(member: Member, share: float) -> Member:
        if member.method != "dxml":
            return member
        epochs = max(1, round(share * member.parameters["epochs"]))
        return member._replace(
            parameters={**member.parameters, "epochs": epochs},
        )

    return [[shortened(member, share) for member in plan] for share in (0.5, 0.25)]


def has_dense_features(shape: Shape) -> bool:
    """Return whether the input has dense features in addition to sparse ones."""
    return COMMON_FEATURES <= shape.common_features <= shape.features / 2


def knn_member(shape: Shape) -> Member:
    """Return knn, on the sparse features alone: by dense ones every example is a neighbour.

    From so many examples on, a query would read more of the index than the other members cost.
    """
    parameters: dict[str, Any] = {}
    if has_dense_features(shape):
        parameters["max_document_frequency"] = 0.5
    if shape.points >= BOUNDED_NEIGHBOURS:
        parameters["max_postings"] = MAX_POSTINGS
    return Member("knn", parameters)


def dxml_member(n_examples: int) -> Member:
    """Return dxml with fewer steps than alone: on debtags, half of them improved as much."""
    if n_examples >= FEW_EXAMPLES:
        parameters = {**DXML_PARAMETERS, **DXML_MANY_EXAMPLES}
        return Member("dxml", parameters, seconds=DXML_SECONDS)
    most = VERY_FEW_EPOCHS if n_examples < VERY_FEW_EXAMPLES else 30
    epochs = min(max(DXML_STEPS * DXML_BATCH // n_examples, 6), most)
    parameters = {**DXML_PARAMETERS, "batch_size": DXML_BATCH, "epochs": epochs}
    return Member("dxml", parameters, seconds=DXML_SECONDS)


def _linear_negatives(shape: Shape) -> str:
    """Return the kind of negatives that `linear` uses on data of this shape."""
    linear = method_class("linear")
    return str(linear.resolve(linear().get_params(), shape)["negatives"])
