"""Fusion: a combination of methods, with weights fitted on held-out examples.

Every member returns a short list of candidate labels; `components/stacking.py` combines the
members' scores into one calibrated probability. Members are fitted once for all objectives: "psp"
and "f1" only change how the combined probabilities are weighted by the rarity of labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import expect
from labelspace._core.schema import Schema
from labelspace._core.sparse import as_csr, checked_features
from labelspace.components.boosted_stacking import BoostedCombiner
from labelspace.components.calibration import log_odds
from labelspace.components.candidates import COLUMNS, listed_by_any
from labelspace.components.examples import Examples
from labelspace.components.holdout import held_out_share
from labelspace.components.name_matches import Matches
from labelspace.components.near_duplicates import group_sizes
from labelspace.components.stacking import Combiner
from labelspace.components.tail_objective import choose_tail_offset
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import InputError, ParameterError, UnsupportedError
from labelspace.features.name_codes import COLUMNS as MATCH_COLUMNS
from labelspace.methods.base import Method, Neighbour
from labelspace.methods.explanation import (
    LabelExplanation,
    checked_example,
    nearest_vectors,
    score_changes,
)
from labelspace.methods.fusion.budget import TrainingBudget
from labelspace.methods.fusion.columns import MemberColumns
from labelspace.methods.fusion.combining import (
    fitted_combiner,
    folds_of,
    labels_hidden,
    matches_of_members,
    measured_ranking,
)
from labelspace.methods.fusion.fitting import (
    MORE_HELD_OUT,
    QUICK_TO_REFIT,
    add_held_out,
    fit_members,
    held_out_of,
    import_in_background,
    refits_in_time,
)
from labelspace.methods.fusion.float16 import as_float32, round_in_place
from labelspace.methods.fusion.member_settings import joined, read_settings, with_settings
from labelspace.methods.fusion.members import (
    stored_arrays,
)
from labelspace.methods.fusion.plan import (
    Member,
    candidate_plans,
)
from labelspace.methods.fusion.saving import expanded, load_state, schema_of, state_of
from labelspace.methods.fusion.selection import leave_out_members
from labelspace.methods.fusion.space import WeightSpace, member_with_space, weight_space
from labelspace.methods.fusion.update import check_updatable, examples_to_keep, update
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
from labelspace.methods.search_range import SearchRange, among, between
from labelspace.ranking import Ranking

EPS = 1e-7  # probabilities nearer to 0 or 1 differ by rounding alone


class Fusion(Method):
    """A combination of methods, with weights fitted on held-out examples.

    Every member returns its likeliest labels. All labels on any of these lists are candidates; a
    logistic regression on the members' log odds and the label's frequency makes one probability of
    them (stacking [1]_). By default the members are linear classifiers and, by the size of the
    data, an embedding (`DXML`), nearest neighbours (`KNN`) or a tree of classifiers
    (`HierarchicalXC`). With label texts, names of labels that occur in the text are found too
    (`Lexical`), also those of labels without examples, labels with descriptions are compared with
    the text (`LabelText`), and boosted trees combine the members.

    Attributes
    ----------
    members_ : list of Method
        The fitted members; those that rerank come last.
    plan_ : list of Member
        Method and parameters of each.
    combiner_ : Combiner
    examples_ : Examples or None
        The training examples, where a member needs them for updates and none keeps them.
    row_order_ : ndarray
        Rows of the training data in the order in which `nearest_examples` of a member counts them;
        empty if that is the order of the training data.

    References
    ----------
    .. [1] D. H. Wolpert. Stacked generalization. Neural Networks 5(2), 1992.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.tile(np.eye(3), (20, 1))
    >>> Y = np.tile([[1, 0, 1], [1, 1, 0], [0, 1, 0]], (20, 1))
    >>> model = Fusion(members="knn,linear").fit(X, Y)
    >>> [member.name for member in model.members_]
    ['knn', 'linear']
    >>> model.predict(X[2:3], 1).labels.tolist()
    [[1]]
    """

    name: ClassVar[str] = "fusion"
    can_explain: ClassVar[bool] = True
    can_update: ClassVar[bool] = True
    can_find_examples: ClassVar[bool] = True
    can_compare_labels: ClassVar[bool] = True
    has_space: ClassVar[bool] = True
    uses_label_texts: ClassVar[bool] = True
    takes_name_matches: ClassVar[bool] = True
    takes_label_texts: ClassVar[bool] = True
    summary: ClassVar[str] = "linear classifiers, neighbours and an embedding, combined by stacking"

    members: str = text(
        "Names of the methods to combine, separated by commas.",
        default=AUTO,
        group="usual",
        auto="by the size of the data",
        search=among(
            AUTO,
            "linear,knn",
            "linear,dxml",
            "linear,dxml,knn",
            "linear,hierarchicalxc,knn",
            "linear,dxml,hierarchicalxc,knn",
        ),
    )
    member_settings: str | None = text(
        "Parameters of members, such as linear.C=0.5; dxml.lr=0.01. On the command line each is "
        "given by itself: --set linear.C=0.5.",
        default=None,
        none="members have their usual parameters",
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
        "Number of candidate labels per member.",
        default=20,
        group="usual",
        low=5,
        high=1000,
        search=between(10, 100, log=True),
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

    plan_: list[Member]
    members_: list[Method]
    combiner_: Combiner
    columns_: MemberColumns
    examples_: Examples | None
    row_order_: np.ndarray
    _weight_space: WeightSpace | None = None

    def check_parameters(self) -> None:
        super().check_parameters()
        read_settings(self.member_settings)
        names = [name.strip() for name in self.members.split(",")]
        if names == ["auto"]:
            return
        known = [name for name in method_names() if name != self.name]
        if "auto" in names:
            raise ParameterError(
                f"fusion.members={self.members!r}: 'auto' chooses all members and cannot be "
                f"combined with names; there are: {', '.join(known)}"
            )
        for name in names:
            if name not in known:
                raise ParameterError(
                    f"fusion.members={self.members!r}: {name!r} is not a method; "
                    f"there are: auto, or {', '.join(known)}"
                )

    @classmethod
    def parse_parameters(cls, settings: Mapping[str, str]) -> dict[str, Any]:
        """Return parameters that were given as texts; "linear.C" is a parameter of a member."""
        own = {name: value for name, value in settings.items() if "." not in name}
        of_members = {name: value for name, value in settings.items() if "." in name}
        if of_members:
            before = own.pop("member_settings", "none")
            given = [] if before.strip().lower() == "none" else [before]
            own["member_settings"] = "; ".join([*given, str(joined(of_members))])
        parsed = super().parse_parameters(own)
        read_settings(parsed.get("member_settings"))
        return parsed

    @classmethod
    def search_ranges(cls, shape: Shape) -> dict[str, SearchRange]:
        """Return the ranges of tuning: members that are not installed are left out.

        With label texts, names in the text propose labels, whatever the other members are.
        """
        ranges = super().search_ranges(shape)
        before = "" if shape.match_nnz is None else "lexical,"
        lists = [names for names in ranges["members"].values if names != AUTO]
        if find_spec("torch") is None:
            lists = [names for names in lists if "dxml" not in names]
        return {**ranges, "members": among(AUTO, *(before + names for names in lists))}

    @classmethod
    def searched_members(cls, params: Mapping[str, Any], shape: Shape) -> list[str]:
        defaults = {name: one.default for name, one in cls.parameters.items()}
        resolved = cls.resolve({**defaults, **params}, shape)["members"]
        return list(dict.fromkeys(member["method"] for member in resolved))

    @classmethod
    def of_members(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        text = joined(settings)
        return {} if text is None else {"member_settings": text}

    def reads_label_texts(self) -> bool:
        return self.members == "auto" or any(
            name.strip() in method_names() and method_class(name.strip()).uses_label_texts
            for name in self.members.split(",")
        )

    def _width_with_matches(self, n_labels: int) -> int:
        if self.columns_.n_text is None:
            raise InputError("the model was fitted without match columns: train it again with them")
        return self.columns_.n_text + MATCH_COLUMNS * n_labels

    def absent_members(self) -> str:
        """Return the kind of members that `auto` leaves out without torch; "" if none."""
        return "" if self.members != "auto" or find_spec("torch") else "its neural member"

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        cap = None if shape.match_nnz is None else MORE_HELD_OUT
        share, members = held_out_share(params["validation"], shape.points, cap), params["members"]
        if isinstance(members, str):
            # With a time limit, these are all members for which there may be time.
            plans = candidate_plans(members, shape, params["budget"])
            longest = max(with_settings(plans, params["member_settings"]), key=len)
            members = tuple(member.to_json() for member in longest)
        return {"validation": share, "members": members}

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
        X, Y = as_csr(data.X), data.Y
        n_text = data.n_text_features if data.name_matches else None
        self.columns_ = MemberColumns(n_text, data.label_texts)
        budget = TrainingBudget(self.params_.budget)
        imports = None if budget.is_short else import_in_background(self)
        hold_out = held_out_of(self, X, data, budget)
        if imports is not None and self.params_.budget is not None:
            imports.join()  # or members would seem slower than they are
        held_rows = hold_out.held_rows
        held = hold_out.valid or (X[:0], Y[:0])
        shape = Shape.of(X, Y, data.name_matches, data.label_texts)
        hidden = labels_hidden(self, held[1], hold_out.Y)
        self.columns_ = replace(self.columns_, hidden=hidden)
        fit_members(self, (hold_out.X, hold_out.Y), hold_out.valid, data, shape, budget)
        self.columns_ = MemberColumns(n_text)
        # Near duplicates count as one example.
        sample_weight = 1.0 / group_sizes(self.columns_.texts(held[0]))
        if self.members == AUTO:
            leave_out_members(self, held[0], held[1], hold_out.Y, sample_weight)
        rankings, matches = self.rankings(held[0])
        given = held[1], hold_out.Y, sample_weight
        self.combiner_ = fitted_combiner(self, rankings, held[0], *given, hidden)
        folds = folds_of(self, rankings, held[0], *given, hidden)
        if self.params_.objective != "precision":
            choose_tail_offset(
                self.combiner_, self.params_.objective, rankings, *given, folds, matches
            )
        self.held_out_ = measured_ranking(self, folds, rankings, held[1], matches)
        if len(held_rows):
            add_held_out(self, X, Y, held_rows, data.taxonomy)
        for fitted, member in zip(self.members_, self.plan_, strict=True):
            if member.reranks:
                fitted.drop_candidate_search()
        self.examples_ = examples_to_keep(self.members_, self.columns_.texts(X), Y)
        self.row_order_ = np.zeros(0, np.int64)
        finding = self._finding()
        if len(held_rows) and finding is not None and finding.name not in QUICK_TO_REFIT:
            self.row_order_ = np.concatenate([hold_out.train_rows, held_rows])
        self.round_members()

    def round_members(self, after_update: bool = False) -> None:
        """Round the members to 16 bits, so that the model predicts the same after it is loaded.

        After an update most numbers are rounded already, so that members need not be loaded again.
        """
        for fitted in self.members_:
            arrays = fitted.arrays_to_round() if after_update else None
            if arrays is not None:
                round_in_place(arrays, fitted.full_precision)
            else:
                fitted.load_state(as_float32(stored_arrays(fitted)))
        self._weight_space = None

    def _check_updatable(self) -> None:
        check_updatable(self)

    def _partial_fit(self, data: TrainingData) -> None:
        update(self, data)

    def rankings(self, X: csr_matrix) -> tuple[list[Ranking], Matches | None]:
        """Return the ranking of each member, and matches of label names if a member finds any.

        A member that is not updated lacks new labels.
        """
        # `rank` instead of `predict`: checking one row again would take as long as ranking it.
        rankings: list[Ranking] = []
        parts = self.parts(X)
        for fitted, member, own in zip(self.members_, self.plan_, parts, strict=True):
            if member.reranks:
                listed = listed_by_any(rankings)
                if listed.max(initial=-1) >= fitted.n_labels_:
                    listed = np.where(listed < fitted.n_labels_, listed, -1)
                rankings.append(fitted.rerank(own, listed))
            else:
                rankings.append(fitted.rank(own, min(self.params_.shortlist, fitted.n_labels_)))
        return rankings, matches_of_members(self.members_, parts)

    def parts(self, X: csr_matrix) -> list[csr_matrix]:
        """Return the columns of each member."""
        return self.columns_.split([member.method for member in self.plan_], X)

    def _predict(self, X: Features, k: int) -> Ranking:
        rankings, matches = self.rankings(as_csr(X))
        return self.combiner_.rank(rankings, k, matches)

    def explain(self, X: Any, label: int, k: int = 5) -> LabelExplanation:
        """Return the features that raise a label's score most, similar labels and near examples.

        The weight of a feature is the log odds that the label loses without it, or a lower bound
        where the label is then no candidate at all. Labels and examples are those of
        `similar_labels` and `nearest_examples`.

        Parameters
        ----------
        X : sparse matrix or array of shape (1, n_features)
            One example.
        label : int
            Column of Y.
        k : int, default 5
            Number of features, of labels and of examples.

        Returns
        -------
        LabelExplanation
            Without examples if no member keeps any.
        """
        self._check_fitted()
        X = checked_example(self, X, label)

        def odds(rows: csr_matrix) -> np.ndarray:
            ranked = self._predict(rows, self.params_.shortlist * len(self.members_))
            is_label = ranked.labels == label
            found = np.where(is_label, ranked.scores, 0.0).max(axis=1)
            last = np.where(ranked.labels >= 0, ranked.scores, np.inf).min(axis=1)
            bound = np.where(np.isfinite(last), last, 0.0)  # of a label that is no candidate
            return log_odds(np.where(is_label.any(axis=1), found, bound), EPS)

        near = self.nearest_examples(X, k) if self._finding() is not None else []
        return LabelExplanation(
            label,
            score_changes(X, odds, k),
            self.similar_labels(label, k),
            [(each.row, each.similarity) for each in near],
            [each.labels for each in near],
        )

    def similar_labels(self, label: int, k: int) -> list[tuple[int, float]]:
        """Return labels by the first member that compares them, else by `label_vectors_`."""
        for member in self.members_:
            if member.can_compare_labels and label < member.n_labels_:
                return member.similar_labels(label, k)
        try:
            return nearest_vectors(self.label_vectors_, label, k)
        except UnsupportedError:
            return []

    def nearest_examples(self, X: Any, k: int = 5) -> list[Neighbour]:
        """Return the training examples that the first member that keeps some finds.

        By `knn` they are compared by their features, by `dxml` in its space.

        Parameters
        ----------
        X : sparse matrix or array of shape (1, n_features)
            One example.
        k : int, default 5
            Number of training examples, at most.

        Returns
        -------
        list of Neighbour

        Raises
        ------
        UnsupportedError
            If no member keeps training examples.
        """
        self._check_fitted()
        finding = self._finding()
        if finding is None:
            return super().nearest_examples(X, k)
        X = self.columns_.of(finding.name, as_csr(checked_features(X, self.n_features_in_)))
        order = self.row_order_
        return [
            each._replace(row=int(order[each.row])) if each.row < len(order) else each
            for each in finding.nearest_examples(X, k)
        ]

    def _finding(self) -> Method | None:
        """Return the first member that finds near training examples."""
        return next((member for member in self.members_ if member.can_find_examples), None)

    def embed(self, X: Any) -> np.ndarray:
        """Return the vectors of examples in the space of `label_vectors_`.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n, dim)
        """
        self._check_fitted()
        X = self.columns_.texts(as_csr(checked_features(X, self.n_features_in_)))
        member = member_with_space(self.members_)
        return self._of_weights().embed(X) if member is None else member.embed(X)

    @property
    def label_vectors_(self) -> np.ndarray:
        """The labels' vectors in the space of the first member that has one.

        Else a truncated singular value decomposition of the sums of the labels' examples, or of
        the classifiers' weights, computed at the first access after training or loading.
        """
        member = member_with_space(self.members_)
        vectors = self._of_weights().label_vectors if member is None else member.label_vectors_
        return np.pad(vectors, ((0, self.n_labels_ - len(vectors)), (0, 0)))

    @property
    def space_geometry(self) -> str:
        """The geometry of `label_vectors_`."""
        member = member_with_space(self.members_)
        return "euclidean" if member is None else member.space_geometry

    def _of_weights(self) -> WeightSpace:
        if self._weight_space is None:
            self._weight_space = weight_space(self.members_, self.params_.seed)
        return self._weight_space

    def metadata(self) -> dict[str, Any]:
        members: list[dict[str, Any]] = [{"name": member.method} for member in self.plan_]
        if not isinstance(self.combiner_, BoostedCombiner):
            weights = self.combiner_.weights.T[:-2:COLUMNS].round(3).tolist()
            members = [
                {**member, "weights": own} for member, own in zip(members, weights, strict=True)
            ]
        return {
            "members": members,
            "tail_offset": [None if np.isinf(e) else e for e in self.combiner_.tail_offset],
        }

    def state(self) -> dict[str, np.ndarray]:
        return state_of(self)

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:
        return schema_of(arrays)

    def expanded(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        return expanded(arrays)

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        load_state(self, arrays)

    @classmethod
    def fits(cls, params: Mapping[str, Any], shape: Shape) -> list[tuple[str, dict[str, Any], int]]:
        members = [Member.from_json(member) for member in params["members"]]
        return [
            (one.method, one.parameters, params["ensemble"] + refits_in_time(one, shape.points))
            for one in members
        ]

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        members = _members_memory(params["members"], shape)
        kept = any(method_class(member["method"]).can_refit_grown for member in params["members"])
        return {
            "kept examples": shape.data_bytes if kept else 0,
            "hold-out and its near duplicates": 4 * shape.data_bytes + 12 * shape.features,
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
