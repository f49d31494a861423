"""Fusion: a combination of methods, with weights fitted on held-out examples.

Every member returns a short list of candidate labels; `components/stacking.py` combines the
members' scores into one calibrated probability. Members are fitted once for all objectives: "psp"
and "f1" only change how the combined probabilities are weighted by the rarity of labels.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import all_within, expect
from labelspace._core.sparse import as_csr, checked_features, digest
from labelspace.components.boosted_stacking import BoostedCombiner
from labelspace.components.calibration import log_odds
from labelspace.components.examples import Examples
from labelspace.components.holdout import HoldOut, held_out_share
from labelspace.components.near_duplicates import group_sizes
from labelspace.components.stacking import COLUMNS, Combiner, listed_by_any
from labelspace.components.training_data import Shape, TrainingData
from labelspace.components.unseen_labels import labels_to_hide, without_labels
from labelspace.data.dataset import Features
from labelspace.engine import LocalEngine
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
from labelspace.methods.fusion.float16 import as_float32, round_in_place, to_float16
from labelspace.methods.fusion.members import (
    arrays_of_member,
    fitted_arrays,
    member_of_arrays,
    stored_arrays,
)
from labelspace.methods.fusion.plan import (
    DXML_SECONDS,
    FEW_EXAMPLES,
    Member,
    candidate_plans,
    single_member,
)
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
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import listeners
from labelspace.runs.history import History

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.runs.callbacks import Callback

EPS = 1e-7  # probabilities nearer to 0 or 1 differ by rounding alone
SEED_STEP = 7919  # between the seeds of two copies of a member
# Members that use the held-out examples however many examples there are, as this takes no time.
QUICK_TO_REFIT, QUICK_TO_UPDATE = ("knn", "labeltext", "lexical"), ("dxml",)
FOLDS = 3  # of the held-out examples, by which the tail offset is chosen
MORE_HELD_OUT = 8000  # examples at most, with label texts: trees gain by more than weights do


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

    examples_: Examples | None
    row_order_: np.ndarray
    _weight_space: WeightSpace | None = None

    def check_parameters(self) -> None:
        super().check_parameters()
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

    def reads_label_texts(self) -> bool:
        return self.members == "auto" or any(
            name.strip() in method_names() and method_class(name.strip()).uses_label_texts
            for name in self.members.split(",")
        )

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        valid: tuple[Any, Any] | None = None,
        taxonomy: Taxonomy | None = None,
        callbacks: Sequence[Callback] = (),
        name_matches: bool = False,
        label_texts: Any = None,
    ) -> Self:
        """Fit the members and their combination.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features)
            Features of the examples.
        Y : sparse matrix or array of shape (n, n_labels)
            Labels of the examples.
        valid : pair of X and Y, optional
            Examples to fit the combination on; cut from the training data if None.
        taxonomy : Taxonomy, optional
            Parents of the labels, for members that use them.
        callbacks : sequence of Callback
        name_matches : bool, default False
            Whether the last columns of X are those of a `NameMatcher` of all labels.
        label_texts : sparse matrix or array of shape (n_labels, n_text_features), optional
            Features of the labels' own texts: the columns of X before match columns.

        Returns
        -------
        Fusion
            The method itself.
        """
        given = {"name_matches": name_matches, "label_texts": label_texts}
        return self._fit_checked(X, Y, valid, taxonomy, callbacks, **given)

    def partial_fit(
        self, X: Any, Y: Any, *, callbacks: Sequence[Callback] = (), name_matches: bool = False
    ) -> Self:
        """Update the members and their combination with more examples.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features)
            Features of the new examples alone.
        Y : sparse matrix or array of shape (n, n_labels)
            Their labels. Columns after those of `fit` are new labels.
        callbacks : sequence of Callback
        name_matches : bool, default False
            Whether X has match columns for all labels of Y, for a model that was fitted with such.
            By default it has as many columns as the model, and names of new labels are not found.

        Returns
        -------
        Fusion
            The method itself.
        """
        return self._update_checked(X, Y, callbacks, name_matches=name_matches)

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
            longest = max(candidate_plans(members, shape, params["budget"]), key=len)
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
        imports = None if budget.is_short else self._import_in_background()
        hold_out = self._hold_out(X, data, budget)
        if imports is not None and self.params_.budget is not None:
            imports.join()  # or members would seem slower than they are
        held_rows = hold_out.held_rows
        held = hold_out.valid or (X[:0], Y[:0])
        shape = Shape.of(X, Y, data.name_matches, data.label_texts)
        self._fit_members((hold_out.X, hold_out.Y), hold_out.valid, data, shape, budget)
        self.columns_ = MemberColumns(n_text)
        rankings = self.rankings(held[0])
        # Near duplicates count as one example.
        sample_weight = 1.0 / group_sizes(self.columns_.texts(held[0]))
        given = held[1], hold_out.Y, sample_weight
        self.combiner_ = self._combiner(rankings, held[0], *given)
        if self.params_.objective != "precision":
            folds = self._folds(rankings, held[0], *given)
            self.combiner_.choose_tail_offset(self.params_.objective, rankings, *given, folds)
        if len(held_rows):
            self._add_held_out(X, Y, held_rows, data.taxonomy)
        for fitted, member in zip(self.members_, self.plan_, strict=True):
            if member.reranks:
                fitted.drop_candidate_search()
        self.examples_ = examples_to_keep(self.members_, self.columns_.texts(X), Y)
        self.row_order_ = np.zeros(0, np.int64)
        finding = self._finding()
        if len(held_rows) and finding is not None and finding.name not in QUICK_TO_REFIT:
            self.row_order_ = np.concatenate([hold_out.train_rows, held_rows])
        self.round_members()

    def _import_in_background(self) -> threading.Thread:
        """Import what will be needed in a thread, while compiled loops find near duplicates.

        An import that fails is repeated where it is needed, and raises its error there.
        """

        def load(names: list[str]) -> None:
            with suppress(Exception):
                import_module("sklearn.linear_model")
                for name in names:
                    method_class(name)

        limit = self.params_.budget
        in_time = limit is None or limit > 2 * DXML_SECONDS
        names = [member["method"] for member in self.params_.members] if in_time else []
        thread = threading.Thread(target=load, args=(names,), daemon=True)
        thread.start()
        return thread

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

    def _combiner(
        self,
        rankings: list[Ranking],
        X: csr_matrix,
        Y: csr_matrix,
        Y_train: csr_matrix,
        sample_weight: np.ndarray,
    ) -> Combiner:
        """Return the combination fitted on held-out examples."""
        tail = self.params_.objective == "psp"
        if self.columns_.n_text is None or Y.nnz == 0:
            return Combiner.fit(rankings, Y, Y_train, sample_weight, tail)
        counts = np.bincount(Y_train.indices, minlength=Y_train.shape[1])
        hidden = labels_to_hide(Y, counts, self.params_.seed)
        seen = [
            fitted.without_examples_of(hidden).rank(self.columns_.of(fitted.name, X), ranking.k)
            if fitted.uses_label_texts
            else without_labels(ranking, hidden)
            for fitted, ranking in zip(self.members_, rankings, strict=True)
        ]
        return BoostedCombiner.fit(seen, Y, Y_train, sample_weight, tail, hidden)

    def _folds(
        self,
        rankings: list[Ranking],
        X: csr_matrix,
        Y: csr_matrix,
        Y_train: csr_matrix,
        sample_weight: np.ndarray,
    ) -> list[tuple[np.ndarray, Combiner]]:
        """Return parts of the held-out examples, each with a combination fitted on the others."""
        if self.params_.objective != "psp" or Y.shape[0] < FOLDS:
            return []
        rng = np.random.default_rng([self.params_.seed, Y.shape[0]])
        fold = rng.permutation(np.arange(Y.shape[0]) % FOLDS)
        found = []
        for part in range(FOLDS):
            rest = np.flatnonzero(fold != part)
            lists = [ranking.take(rest) for ranking in rankings]
            fitted = self._combiner(lists, X[rest], Y[rest], Y_train, sample_weight[rest])
            found.append((np.flatnonzero(fold == part), fitted))
        return found

    def _hold_out(self, X: csr_matrix, data: TrainingData, budget: TrainingBudget) -> HoldOut:
        """Return the hold-out; near duplicates are found by the features without matches."""
        share, seed = self.params_.validation, self.params_.seed
        if budget.is_short and self.members == AUTO and data.valid is None:
            return HoldOut.without(data)
        if not data.name_matches:
            return HoldOut.of(data, share, seed, groups=True)
        valid = data.valid and (self.columns_.texts(as_csr(data.valid[0])), data.valid[1])
        text = replace(data, X=self.columns_.texts(X), valid=valid)
        found = HoldOut.of(text, share, seed, groups=True, cap=MORE_HELD_OUT)
        if not len(found.held_rows):
            given = found.valid and data.valid
            return replace(found, X=X, valid=given and (as_csr(given[0]), given[1]))
        held = X[found.held_rows], data.Y[found.held_rows]
        return replace(found, X=X[found.train_rows], valid=held)

    def _fit_members(
        self,
        train: tuple[csr_matrix, csr_matrix],
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
        shape: Shape,
        budget: TrainingBudget,
    ) -> None:
        """Fit all members, or with a time limit those that fit into it, but at least one.

        Copies of the same members are fitted in parallel, one core each, without progress.
        """
        budget.calibrate(*train, self.columns_, self.params_.seed)
        plan = [Member.from_json(member) for member in self.params_.members]
        if self.params_.budget is not None:
            plan = self._plan_within(budget, shape)
        copies = [
            (member, self.params_.seed + member.parameters.get("seed", 0) + SEED_STEP * copy)
            for copy in range(self.params_.ensemble)
            for member in plan
        ]
        in_parallel = self.params_.ensemble > 1 and self.params_.budget is None
        self.plan_: list[Member] = []
        self.members_: list[Method] = []
        for place, (member, seed) in enumerate(copies):
            refits = self._refits_in_time(member, train[0].shape[0])
            if self.plan_ and not budget.reserve(member, refits):
                continue
            seeded = member._replace(parameters={**member.parameters, "seed": seed})
            self.plan_.append(seeded)
            if not in_parallel:
                self.members_.append(self._fit_member(seeded, place, train, valid, data))
        if in_parallel:
            self.members_ = self._fit_in_parallel(train, valid, data)
        # Members that rerank come after all that find candidates, whatever the order of training.
        order = sorted(range(len(self.plan_)), key=lambda place: self.plan_[place].reranks)
        self.members_ = [self.members_[place] for place in order]
        self.plan_ = [self.plan_[place] for place in order]

    def _plan_within(self, budget: TrainingBudget, shape: Shape) -> list[Member]:
        """Return the longest plan that fits into the time, or the quickest if none does."""
        if budget.is_short and self.members == AUTO:
            return [single_member(shape)]
        # `params_.members` is the longest plan alone, so plans are made from the parameter again.
        best, *longer = candidate_plans(self.members, shape, self.budget)
        for plan in longer:
            if not budget.fits([(one, self._refits_in_time(one, shape.points)) for one in plan]):
                break
            best = plan
        return best

    def _refits_in_time(self, member: Member, n_examples: int) -> bool:
        """Return whether the member is fitted from scratch a second time, and not updated."""
        cls = method_class(member.method)
        return _refits_on_all(member.method, n_examples) and cls.refit is not Method.refit

    def _fit_in_parallel(
        self,
        train: tuple[csr_matrix, csr_matrix],
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> list[Method]:
        """Return the members of `plan_`, fitted in processes of their own."""
        X, Y = train
        shared = {"X": X, "Y": Y, "taxonomy": data.taxonomy, "columns": self.columns_}
        if valid is not None:
            shared |= {"valid_X": valid[0], "valid_Y": valid[1]}
        if any(isinstance(callback, History) for callback in data.callbacks):
            shared["history"] = True

        def report(done: int, total: int) -> None:
            for callback in data.callbacks:
                callback.on_work("members", done, total)

        states = LocalEngine().map(fitted_arrays, self.plan_, shared=shared, progress=report)
        return [
            member_of_arrays(
                member.method, arrays, **self.columns_.sizes(member.method, X.shape[1], Y.shape[1])
            )
            for member, arrays in zip(self.plan_, states, strict=True)
        ]

    def _fit_member(
        self,
        member: Member,
        place: int,
        train: tuple[csr_matrix, csr_matrix],
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> Method:
        """Return a fitted member: that of an interrupted run, if it was finished there."""
        model = method_class(member.method)(**member.parameters)
        settings = digest(model.name, sorted(model.get_params().items()))
        identity = f"{data.identity}-{place}-{settings}"
        # With a time limit, a resumed run may choose other parameters: this is then fitted again.
        suffix = "" if self.params_.budget is None else f"-{settings[:6]}"
        callbacks = listeners(data.callbacks, f"{place + 1}-{model.name}{suffix}")
        for callback in callbacks:
            arrays = callback.finished(identity)
            if arrays is not None:
                sizes = self.columns_.sizes(model.name, train[0].shape[1], train[1].shape[1])
                return member_of_arrays(model.name, arrays, **sizes)
        if valid is not None:
            valid = self.columns_.of(model.name, valid[0]), valid[1]
        model.fit(
            *(self.columns_.of(model.name, train[0]), train[1]),
            valid=valid,
            taxonomy=data.taxonomy,
            callbacks=callbacks,
            **self.columns_.arguments(model.name),
        )
        for callback in callbacks:
            callback.finish(identity, arrays_of_member(model))
        return model

    def _add_held_out(
        self, X: csr_matrix, Y: csr_matrix, held_rows: np.ndarray, taxonomy: Taxonomy | None
    ) -> None:
        """Fit members to the held-out examples too, now that the combination is fitted."""
        for member in self.members_:
            refits = _refits_on_all(member.name, X.shape[0])
            own = self.columns_.of(member.name, X)
            if refits and member.refit(own, Y, taxonomy):
                continue
            in_time = refits or member.name in QUICK_TO_UPDATE
            if in_time and member.can_update and not member.can_refit_grown:
                member.partial_fit(own[held_rows], Y[held_rows])

    def rankings(self, X: csr_matrix) -> list[Ranking]:
        """Return the ranking of each member; a member that is not updated lacks new labels."""
        # `rank` instead of `predict`: checking one row again would take as long as ranking it.
        rankings: list[Ranking] = []
        parts = self.columns_.split([member.method for member in self.plan_], X)
        for fitted, member, own in zip(self.members_, self.plan_, parts, strict=True):
            if member.reranks:
                listed = listed_by_any(rankings)
                if listed.max(initial=-1) >= fitted.n_labels_:
                    listed = np.where(listed < fitted.n_labels_, listed, -1)
                rankings.append(fitted.rerank(own, listed))
            else:
                rankings.append(fitted.rank(own, min(self.params_.shortlist, fitted.n_labels_)))
        return rankings

    def _predict(self, X: Features, k: int) -> Ranking:
        return self.combiner_.rank(self.rankings(as_csr(X)), k)

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

        Else a truncated singular value decomposition of the weights of the linear classifiers,
        computed at the first access after `fit`, `partial_fit` or loading.
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
        documents = [
            {
                "method": member.method,
                "reranks": member.reranks,
                "labels": fitted.n_labels_,
                **fitted.to_json(),
            }
            for fitted, member in zip(self.members_, self.plan_, strict=True)
        ]
        written = json.dumps(documents).encode()
        arrays = {**self.combiner_.state(), "members": np.frombuffer(written, np.uint8)}
        if self.examples_ is not None:
            arrays |= to_float16(self.examples_.state())
        if len(self.row_order_):
            arrays |= to_float16({"row_order": self.row_order_})
        if self.columns_.n_text is not None:
            arrays["n_text"] = np.array([self.columns_.n_text], np.int64)
        for place, fitted in enumerate(self.members_):
            arrays |= prefixed(f"member.{place}.", stored_arrays(fitted))
        return arrays

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        documents = json.loads(bytes(arrays["members"]))
        combiner = BoostedCombiner if "combiner.trees.start" in arrays else Combiner
        self.combiner_ = combiner.restore(arrays, len(documents), self.n_labels_)
        self.members_, self.plan_ = [], []
        self.columns_ = self._restored_columns(arrays)
        shared = {name: array for name, array in arrays.items() if not name.startswith("member.")}
        shared = as_float32(shared)
        n_text = self.columns_.sizes("linear", self.n_features_in_, self.n_labels_)
        self.examples_ = Examples.restore(shared, *n_text.values())
        self.row_order_ = shared.get("row_order", np.zeros(0, np.int64))
        expect(all_within(self.row_order_, 0, 2**62), "the order of the examples does not fit")
        self._weight_space = None
        for place, document in enumerate(documents):
            n_labels = document.get("labels", self.n_labels_)
            expect(n_labels in range(1, self.n_labels_ + 1), "a member has too many labels")
            name, reranks = document["method"], document["reranks"]
            expect(name != self.name, "a member of the fusion is a fusion")
            cls = method_class(name)
            expect(not reranks or (place > 0 and cls.can_rerank), f"{name} cannot rerank")
            own = as_float32(with_prefix(f"member.{place}.", arrays))
            sizes = self.columns_.sizes(name, self.n_features_in_, n_labels)
            self.members_.append(cls.restored(document, own, **sizes))
            self.plan_.append(Member(name, document["parameters"], bool(reranks)))

    def _restored_columns(self, arrays: Mapping[str, np.ndarray]) -> MemberColumns:
        if "n_text" not in arrays:
            return MemberColumns()
        given = arrays["n_text"]
        expect(given.shape == (1,) and given.dtype == np.int64, "the columns do not fit")
        # Labels that an update added have no match columns.
        n_text = int(given[0])
        matched, rest = divmod(self.n_features_in_ - n_text, MATCH_COLUMNS)
        expect(
            n_text >= 0 and rest == 0 and 0 <= matched <= self.n_labels_, "the columns do not fit"
        )
        return MemberColumns(n_text)

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        members = _members_memory(params["members"], shape)
        kept = any(method_class(member["method"]).can_refit_grown for member in params["members"])
        return {
            "kept examples": shape.data_bytes if kept else 0,
            "hold-out and its near duplicates": 4 * shape.data_bytes + 12 * shape.features,
            **{purpose: params["ensemble"] * size for purpose, size in members.items()},
        }


def _refits_on_all(method: str, n_examples: int) -> bool:
    """Return whether a member is fitted again, on all examples, after the combination is."""
    return method in QUICK_TO_REFIT or n_examples <= FEW_EXAMPLES


def _members_memory(members: Sequence[Mapping[str, Any]], shape: Shape) -> dict[str, int]:
    """Return the bytes that the members need, by member and purpose."""
    needs: Counter[str] = Counter()
    for member in members:
        name, method = member["method"], method_class(member["method"])
        given = method(**member["parameters"]).get_params()
        of = method.memory(shape, method.resolve(given, shape))
        needs.update({f"{name}: {purpose}": size for purpose, size in of.items()})
    return dict(needs)
