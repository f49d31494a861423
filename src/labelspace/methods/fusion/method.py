"""Fusion: several methods list labels, and a combiner learned on held-out examples weighs them.

The members see different things: a linear classifier a label, classifiers along trees, what raw
neighbours carry, and a learned space. Each lists the labels it finds likely; `stacking.py` of
`components/` combines their scores into one calibrated probability. With objective="psp" rare
labels are lifted as far as validation data allow at little cost in P@1, with "f1" as far as it
raises the mean F1 of labels; the members stay as they are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import expect
from labelspace._core.sparse import as_csr, digest
from labelspace.components.calibration import log_odds
from labelspace.components.holdout import HoldOut, held_out_share
from labelspace.components.near_duplicates import group_sizes
from labelspace.components.stacking import COLUMNS, Combiner, listed_by_any
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.engine import LocalEngine
from labelspace.errors import ParameterError
from labelspace.methods.base import Method
from labelspace.methods.explanation import LabelExplanation, checked_example, pushes
from labelspace.methods.fusion.narrow import compact, widened
from labelspace.methods.fusion.plan import (
    FEW_EXAMPLES,
    Clock,
    Step,
    plans,
)
from labelspace.methods.linear import Linear
from labelspace.methods.parameters import (
    AUTO,
    SEED,
    VALIDATION,
    choice,
    having,
    integer,
    number,
    text,
)
from labelspace.methods.registry import method_class, method_names
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import listeners
from labelspace.runs.history import History

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy

ROUNDING = 1e-7  # of a score: nearer to 0 or 1 it says no more
CHEAP = ("knn", "most-common", "random")  # they learn again from any number in no time
VOTING = ("knn", "dxml")  # what learns more by letting examples vote needs no time either


class Fusion(Method):
    """A learned combination of methods."""

    name: ClassVar[str] = "fusion"
    can_explain: ClassVar[bool] = True
    summary: ClassVar[str] = "linear, neighbours and a learned space, weighed on held-out examples"

    members: str = text(
        "Names of the methods to combine, separated by commas.",
        default=AUTO,
        group="usual",
        auto="by the size of the data",
    )
    objective: str = choice(
        "What the ranking is optimised for: precision, propensity-scored precision (rare labels), "
        "or label sets with a high F1 for every label.",
        "precision",
        "psp",
        "f1",
        default="precision",
        group="usual",
    )
    budget: float | None = number(
        "Time limit for training in seconds: with members=auto, members are added while they fit.",
        default=None,
        group="usual",
        low=0.0,
        none="no limit",
    )
    shortlist: int = integer(
        "Number of candidate labels per member.", default=20, group="usual", low=5, high=1000
    )
    validation: float = having(
        VALIDATION,
        help="Share of the training examples to hold out for fitting the combination.",
        default=0.1,
        low=0.001,
        auto=None,
    )
    ensemble: int = integer(
        "Number of copies of each member, each with its own seed.", default=1, group="usual", low=1
    )
    seed: int = SEED

    def check_parameters(self) -> None:
        super().check_parameters()
        names = [name.strip() for name in self.members.split(",")]
        if names == ["auto"]:
            return
        known = [name for name in method_names() if name != self.name]
        if "auto" in names:
            raise ParameterError(
                f"fusion.members={self.members!r}: 'auto' chooses all members and stands alone; "
                f"name the others: {', '.join(known)}"
            )
        for name in names:
            if name not in known:
                raise ParameterError(
                    f"fusion.members={self.members!r}: {name!r} is no method; "
                    f"there are: auto, or {', '.join(known)}"
                )

    def absent_members(self) -> str:
        """Name the kind of members that `auto` leaves out because torch is missing; "" if none."""
        return "" if self.members != "auto" or find_spec("torch") else "its neural member"

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        share = held_out_share(params["validation"], shape.points)
        # With a time limit, the members for which there is time: all of them at most.
        longest = max(plans(params["members"], shape, params["budget"]), key=len)
        return {"validation": share, "members": tuple(step.to_json() for step in longest)}

    def check_resolved(self, resolved: Mapping[str, Any]) -> None:
        members = resolved["members"]
        expect(isinstance(members, tuple), "members is not a list")
        for member in members:
            expect(
                isinstance(member, dict)
                and member.keys() == {"method", "parameters", "reranks"}
                and isinstance(member["method"], str),
                "a member is not described by method, parameters and reranks",
            )
        super().check_resolved({**resolved, "members": AUTO})

    def _fit(self, data: TrainingData) -> None:
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed, groups=True)
        X, Y, cut = as_csr(data.X), data.Y, hold_out.held_rows
        held = hold_out.valid or (X[:0], Y[:0])
        self._teach_all((hold_out.X, hold_out.Y), hold_out.valid, data, Shape.of(X, Y))
        rankings = self._rankings(held[0])
        sample_weight = 1.0 / group_sizes(held[0])  # near duplicates count as one example
        given = held[1], hold_out.Y, sample_weight
        self.combiner_ = precise = Combiner.fit(rankings, *given)
        if self.params_.objective == "psp":
            self.combiner_ = Combiner.fit(rankings, *given, tail=True)
        if self.params_.objective != "precision":
            self.combiner_.choose_tail_offset(self.params_.objective, rankings, *given, precise)
        if len(cut):
            self._learn_rest(X, Y, cut, data.taxonomy)
        for member, (_, _, can_rerank) in zip(self.members_, self.settings_, strict=True):
            if can_rerank:
                member.drop_candidate_search()
            # It answers from now on as it will when it is loaded.
            member.load_state(widened(_compacted(member)))

    def _teach_all(
        self,
        train: tuple[csr_matrix, csr_matrix],
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
        shape: Shape,
    ) -> None:
        """All members, or as many as there is time for, but one at least.

        Copies of the same members train side by side, a core each; they tell nothing on their way.
        """
        clock = Clock(self.params_.budget)
        clock.look(*train, self.params_.seed)
        plan = [Step.from_json(member) for member in self.params_.members]
        if self.params_.budget is not None:
            plan = self._plan(clock, shape)
        self.settings_: list[tuple[str, dict[str, Any], bool]] = []
        self.members_: list[Method] = []
        side_by_side = self.params_.ensemble > 1 and self.params_.budget is None
        for place in range(self.params_.ensemble * len(plan)):
            step, turn = plan[place % len(plan)], place // len(plan)
            if self.members_ and not clock.allows(step, self._again(step, train[0].shape[0])):
                continue
            seed = self.params_.seed + step.settings.get("seed", 0) + 7919 * turn
            settings = {**step.settings, "seed": seed}
            member = method_class(step.name)(**settings)
            if not side_by_side:
                self._teach(member, place, train, valid, data)
            self.settings_.append((step.name, settings, step.can_rerank))
            self.members_.append(member)
        if side_by_side:
            self._teach_side_by_side(train, valid, data)
        # Who judges comes after all who find; they may have been trained before some of them.
        order = sorted(range(len(self.members_)), key=lambda place: self.settings_[place][2])
        self.members_ = [self.members_[place] for place in order]
        self.settings_ = [self.settings_[place] for place in order]

    def _plan(self, clock: Clock, shape: Shape) -> list[Step]:
        """The members that suit the data, with more or fewer of them as the time allows."""
        *tried, last = plans(self.members, shape, self.budget)
        for plan in tried:
            if clock.covers([(step, self._again(step, shape.points)) for step in plan]):
                return plan
        return last

    def _again(self, step: Step, n_examples: int) -> bool:
        """Whether the member is trained a second time; what learns more is not."""
        return self._twice(step.name, n_examples) and not method_class(step.name).can_update

    def _teach_side_by_side(
        self,
        train: tuple[csr_matrix, csr_matrix],
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> None:
        X, Y = train
        shared = {"X": X, "Y": Y, "taxonomy": data.taxonomy}
        if valid is not None:
            shared |= {"valid_X": valid[0], "valid_Y": valid[1]}
        if any(isinstance(callback, History) for callback in data.callbacks):
            shared["history"] = True

        def tell(done: int, total: int) -> None:
            for callback in data.callbacks:
                callback.on_work("members", done, total)

        states = LocalEngine().map(fitted_state, self.settings_, shared=shared, progress=tell)
        for member, state in zip(self.members_, states, strict=True):
            member.n_features_in_, member.n_labels_ = X.shape[1], Y.shape[1]
            take_finished(member, state)

    def _twice(self, name: str, n_examples: int) -> bool:
        """Whether a member learns again from all examples once it is weighed."""
        return name in CHEAP or n_examples <= FEW_EXAMPLES

    def _teach(
        self,
        member: Method,
        place: int,
        train: tuple[csr_matrix, csr_matrix],
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> None:
        """Fit a member, or take it as an interrupted run has left it behind."""
        settings = digest(member.name, sorted(member.get_params().items()))
        identity = f"{data.identity}-{place}-{settings}"
        # With a time budget, a resumed run may choose other settings: it then trains this anew.
        suffix = "" if self.params_.budget is None else f"-{settings[:6]}"
        own = listeners(data.callbacks, f"{place + 1}-{member.name}{suffix}")
        kept = next((found for at in own if (found := at.finished(identity)) is not None), None)
        if kept is not None:
            member.n_features_in_, member.n_labels_ = train[0].shape[1], train[1].shape[1]
            take_finished(member, kept)
            return
        member.fit(*train, valid=valid, taxonomy=data.taxonomy, callbacks=own)
        for at in own:
            at.finish(identity, finished_state(member))

    def _learn_rest(
        self, X: csr_matrix, Y: csr_matrix, cut: np.ndarray, taxonomy: Taxonomy | None
    ) -> None:
        """Members that can also learn from the examples that were held out to weigh them."""
        for member in self.members_:
            twice = self._twice(member.name, X.shape[0])
            if member.can_update and (twice or member.name in VOTING):
                member.partial_fit(X[cut], Y[cut])
            elif twice:
                member.refit(X, Y, taxonomy)

    def _rankings(self, X: csr_matrix) -> list[Ranking]:
        # Not `predict`, whose checks X has been through: for one example they cost as much again.
        found: list[Ranking] = []
        for member, (_, _, can_rerank) in zip(self.members_, self.settings_, strict=True):
            k = min(self.params_.shortlist, member.n_labels_)
            if can_rerank:
                found.append(member._rerank(X, listed_by_any(found)))
            else:
                found.append(member._predict(X, k))
        return found

    def _predict(self, X: Features, k: int) -> Ranking:
        return self.combiner_.rank(self._rankings(as_csr(X)), k)

    def explain(self, X: Any, label: int, k: int = 5) -> LabelExplanation:
        """Which features speak for the label, and, by the linear weights, which labels are like it.

        What a feature pushes is the log odds that the label loses without it; at least so much
        where the label is not even listed without it.
        """
        self._check_fitted()
        X = checked_example(self, X, label)

        def odds(rows: csr_matrix) -> np.ndarray:
            ranked = self._predict(rows, self.params_.shortlist * len(self.members_))
            is_label = ranked.labels == label
            found = np.where(is_label, ranked.scores, 0.0).max(axis=1)
            last = np.where(ranked.labels >= 0, ranked.scores, np.inf).min(axis=1)
            bound = np.where(np.isfinite(last), last, 0.0)  # a label that is not listed is below
            return log_odds(np.where(is_label.any(axis=1), found, bound), ROUNDING)

        near = next((m.alike(label, k) for m in self.members_ if isinstance(m, Linear)), [])
        return LabelExplanation(label, pushes(X, odds, k), near, [], [])

    def metadata(self) -> dict[str, Any]:
        weights = self.combiner_.weights.T[:-2:COLUMNS].round(3).tolist()
        return {
            "members": [
                {"name": name, "weights": own}
                for (name, _, _), own in zip(self.settings_, weights, strict=True)
            ],
            "tail_offset": [None if np.isinf(e) else e for e in self.combiner_.tail_offset],
        }

    def state(self) -> dict[str, np.ndarray]:
        members = [
            {"method": name, "reranks": reranks, **member.to_json()}
            for member, (name, _, reranks) in zip(self.members_, self.settings_, strict=True)
        ]
        written = json.dumps(members).encode()
        arrays = {**self.combiner_.state(), "members": np.frombuffer(written, np.uint8)}
        for place, member in enumerate(self.members_):
            arrays |= prefixed(f"member.{place}.", _compacted(member))
        return arrays

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        documents = json.loads(bytes(arrays["members"]))
        self.combiner_ = Combiner.restore(arrays, len(documents), self.n_labels_)
        self.members_, self.settings_ = [], []
        sizes = {"n_features": self.n_features_in_, "n_labels": self.n_labels_}
        for place, document in enumerate(documents):
            name, reranks = document["method"], document["reranks"]
            expect(name != self.name, "a member of the fusion is a fusion")
            cls = method_class(name)
            expect(not reranks or (place > 0 and cls.can_rerank), f"{name} cannot rerank")
            own = widened(with_prefix(f"member.{place}.", arrays))
            self.members_.append(cls.restored(document, own, **sizes))
            self.settings_.append((name, document["parameters"], bool(reranks)))

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        members = _members_memory(params["members"], shape)
        return {
            "the cut, and near duplicates across it": 4 * shape.data_bytes + 12 * shape.features,
            **{purpose: params["ensemble"] * size for purpose, size in members.items()},
        }


def _members_memory(members: Sequence[Mapping[str, Any]], shape: Shape) -> dict[str, int]:
    """Return the bytes that the members need, by member and purpose."""
    needs: Counter[str] = Counter()
    for member in members:
        name, method = member["method"], method_class(member["method"])
        given = method(**member["parameters"]).get_params()
        of = method.memory(shape, method.resolve(given, shape))
        needs.update({f"{name}: {purpose}": size for purpose, size in of.items()})
    return dict(needs)


def _compacted(member: Method) -> dict[str, np.ndarray]:
    """What a member learned, as it is kept."""
    return compact(member.state(), member.full_precision)


def fitted_state(
    item: tuple[str, dict[str, Any], bool],
    X: csr_matrix,
    Y: csr_matrix,
    taxonomy: Taxonomy | None,
    valid_X: csr_matrix | None = None,
    valid_Y: csr_matrix | None = None,
    history: bool = False,
) -> dict[str, np.ndarray]:
    """Return the state of a fitted member of this name and these settings: a task of an engine."""
    name, settings, _ = item
    valid = None if valid_X is None else (valid_X, valid_Y)
    callbacks = [History()] if history else []
    member = method_class(name)(**settings)
    return finished_state(member.fit(X, Y, valid=valid, taxonomy=taxonomy, callbacks=callbacks))


def finished_state(member: Method) -> dict[str, np.ndarray]:
    """Return the state of a fitted member with its history, which a state is without."""
    written = {"history": getattr(member, "history_", None), **member.to_json()}
    document = np.frombuffer(json.dumps(written).encode(), np.uint8)
    return {**member.state(), "document": document}


def take_finished(member: Method, arrays: Mapping[str, np.ndarray]) -> None:
    """Give a member what `finished_state` returned."""
    state = dict(arrays)
    document = json.loads(bytes(state.pop("document")))
    if document["history"] is not None:
        member.history_ = document["history"]
    sizes = {"n_features": member.n_features_in_, "n_labels": member.n_labels_}
    member.__dict__ |= vars(type(member).restored(document, state, **sizes))
