"""Dual encoder: texts and label texts in one space, labels ranked by inner product.

One linear encoder maps the features of a text and of a label's text to vectors. It is trained in
batches so that a text is near to the texts of its labels, and a vector per label, which is dropped
out at random, learns what the label's text does not say. A label without examples is found by its
text, also where text and label share no word. `space.py` has the vectors, `objective.py` the loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import joined_parts, with_prefix
from labelspace._core.schema import Schema, ints, scalars
from labelspace._core.sparse import as_csr
from labelspace.components.calibration import CALIBRATION_K, Calibration
from labelspace.components.held_out_ranking import HeldOutRanking
from labelspace.components.holdout import HoldOut
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.dual_encoder.defaults import resolve
from labelspace.methods.dual_encoder.objective import BatchObjective
from labelspace.methods.dual_encoder.space import DualSpace
from labelspace.methods.dual_encoder.update import TRAINED, trained_labels, with_examples
from labelspace.methods.explanation import (
    LabelExplanation,
    checked_example,
    nearest_vectors,
    score_changes,
)
from labelspace.methods.parameters import (
    ADAM_LR,
    BATCH_SIZE,
    EPOCHS,
    KEEP,
    METRIC,
    PATIENCE,
    SEED,
    VALIDATION,
    Auto,
    choice,
    having,
    integer,
    number,
)
from labelspace.methods.search_range import between
from labelspace.metrics.ranking import measure
from labelspace.nn.trainer import Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.build import (
    build_index,
    check_search,
    index_bytes,
    index_schema,
    restore_index,
)
from labelspace.search.tuning import TYPICAL, evenly

VALIDATED = 1000  # held-out examples by which training is stopped, at most


class DualEncoder(Method):
    """One encoder for texts and label texts, trained in batches; labels by inner product.

    The vector of a text is z(x) = unit(W x), that of a label u(l) = unit(unit(W t_l) + v_l), where
    t_l are the features of the label's text and unit(a) is a / |a|. W and the vectors v_l are
    trained by the cross-entropy of a softmax over the labels of a batch, in which v_l is dropped
    out at random, so that W learns to do without: labels without examples have no v_l. The idea
    is that of dual encoders for extreme classification [1]_, [2]_, here linear and without hard
    negatives.

    It needs label texts (`--labels`); from arrays, `label_texts`, a row of features per label.
    `partial_fit` does not train: labels that had no examples get the mean of their new examples as
    v_l.

    Attributes
    ----------
    params_ : SimpleNamespace
        The parameters as they were fitted: every "auto" is a value.
    label_vectors_ : ndarray of shape (n_labels, dim)
        u; zeros for labels without text and examples, which are not ranked.
    space_ : DualSpace
        The trained weights.
    counts_ : ndarray of shape (n_labels,)
        How many examples v_l is the mean of; -1 where it was trained.
    calibration_ : Calibration
    history_ : list of dict
        Loss and validation score after each epoch of `fit`.

    References
    ----------
    .. [1] K. Dahiya, A. Agarwal, D. Saini, K. Gururaj, J. Jiao, A. Singh, S. Agarwal, P. Kar,
       M. Varma. SiameseXML: Siamese networks meet extreme classifiers with 100M labels. ICML 2021.
    .. [2] K. Dahiya, N. Gupta, D. Saini, A. Soni, Y. Wang, K. Dave, J. Jiao, K. Gururaj, P. Dey,
       A. Singh, D. Hada, V. Jain, B. Paliwal, A. Mittal, S. Mehta, R. Ramjee, S. Agarwal, P. Kar,
       M. Varma. NGAME: negative mining-aware mini-batching for extreme classification. WSDM 2023.

    Examples
    --------
    >>> from labelspace.features import Tfidf
    >>> texts = ["ripe red apple", "a sharp steel saw"] * 10
    >>> features = Tfidf().fit([*texts, "small toy boat"])
    >>> names = features.transform(["apple", "saw", "toy boat"])
    >>> model = DualEncoder(dim=64).fit(
    ...     features.transform(texts), [[1, 0, 0], [0, 1, 0]] * 10, label_texts=names
    ... )
    >>> model.predict(features.transform(["the small boat"]), 1).labels.tolist()
    [[2]]
    """

    name: ClassVar[str] = "dual-encoder"
    can_explain: ClassVar[bool] = True
    can_update: ClassVar[bool] = True
    can_compare_labels: ClassVar[bool] = True
    has_space: ClassVar[bool] = True
    uses_label_texts: ClassVar[bool] = True
    takes_label_texts: ClassVar[bool] = True
    hides_in_training: ClassVar[bool] = True
    summary: ClassVar[str] = "one neural embedding of texts and label texts, inner-product search"

    dim: int = integer(
        "Dimension of the space.",
        default=256,
        group="usual",
        low=1,
        high=4096,
        search=between(64, 512, log=True),
    )
    epochs: int = having(EPOCHS, default=6, search=between(3, 12))
    lr: float = having(ADAM_LR, default=0.006)
    negatives: str = choice(
        "Labels that are scored beside those of the batch: none, or some drawn at random.",
        "in-batch",
        "uniform",
        default="uniform",
        group="usual",
    )
    n_negatives: int = integer("Number of labels that are drawn per batch.", default=2000, low=0)
    keep: float = having(KEEP, default=0.6, group="expert")
    label_dropout: float = number(
        "Share of the labels of a batch that are scored by their texts alone.",
        default=0.5,
        low=0.0,
        high=1.0,
        search=between(0.2, 0.8),
    )
    scale: float = number(
        "Initial factor of inner products, which is trained.", default=20.0, low=0.1
    )
    batch_size: int | Auto = having(
        BATCH_SIZE, auto="a power of two from 32 to 512 that makes 40 to 80 steps per epoch"
    )
    patience: int | None = having(PATIENCE, none="training is not stopped early")
    validation: float | Auto = VALIDATION
    metric: str = METRIC
    recall: float = number(
        "Share of the best 5 labels that approximate search has to find.",
        default=0.98,
        group="usual",
        low=0.5,
        high=1.0,
    )
    seed: int = SEED

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve(params, shape)

    def _fit(self, data: TrainingData) -> None:
        check_search(data.Y.shape[1], self.params_.dim)
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed)
        X, Y, valid = hold_out.X, hold_out.Y, hold_out.valid
        texts = data.label_texts
        if texts is None:
            texts = csr_matrix((Y.shape[1], X.shape[1]), dtype=np.float32)
        self.space_ = DualSpace.fresh(X, Y, texts, self.params_)
        self.calibration_ = Calibration()
        self.history_ = self._train(X, Y, valid, data)
        self.counts_ = trained_labels(Y)
        # What a label without examples was scored by as a negative is no vector of its own.
        weight = self.space_.table.weight
        weight[self.counts_ != TRAINED] = 0.0
        typical = X[evenly(X.shape[0], TYPICAL)] if valid is None else valid[0]
        self._set_vectors(self.space_.embed(typical))
        if valid is not None:
            found = self._ranked(valid[0], min(CALIBRATION_K, Y.shape[1]))
            self.calibration_ = Calibration.fit(*found, valid[1])
            self.held_out_ = HeldOutRanking.calibrated(*found, valid[1])
            if len(hold_out.held_rows):
                self._add_examples(*valid)

    def _train(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> list[dict[str, float]]:
        """Minimise the objective over the examples; return the history."""
        counts, score = LabelCounts.of(Y), None
        if valid is not None and self.params_.patience is not None:
            rows = evenly(valid[0].shape[0], VALIDATED)
            score = partial(self._score, valid[0][rows], valid[1][rows], counts)
        watch(data.callbacks, self._rank_exactly, (X, Y), valid)
        trainer = Trainer(
            epochs=self.params_.epochs,
            batch_size=self.params_.batch_size,
            seed=self.params_.seed,
            schedule="linear",
            patience=self.params_.patience,
            callbacks=data.callbacks,
            identity=data.identity,
        )
        objective = BatchObjective(self.space_, self.params_, X, Y)
        optimiser = self.space_.optimiser(self.params_.lr)
        task = TrainingTask(self.space_.tensors(), objective, optimiser, score)
        return trainer.run(task, X.shape[0])

    def _score(self, X: csr_matrix, Y: csr_matrix, counts: LabelCounts) -> float:
        return measure(self.params_.metric, self._rank_exactly(X, min(5, Y.shape[1])), Y, counts)

    def _rank_exactly(self, X: csr_matrix, k: int) -> Ranking:
        """Rank by the current weights; scores are not calibrated."""
        exact = build_index(self.space_.label_vectors(), kind="exact")
        return Ranking(*exact.search(self.space_.embed(X), k))

    def _set_vectors(self, typical: np.ndarray, *, kind: str = "auto") -> None:
        """Set what follows from the weights; the index is tuned on typical queries."""
        self._compute_vectors()
        self.index_ = build_index(
            self._searched(),
            kind=kind,
            recall=self.params_.recall,
            seed=self.params_.seed,
            queries=typical if len(typical) else None,
        )

    def _compute_vectors(self) -> None:
        self._vectors = self.space_.label_vectors()
        self._known = np.flatnonzero(self._vectors.any(axis=1))

    def _searched(self) -> np.ndarray:
        """Return the vectors of labels that have one."""
        is_whole = len(self._known) == len(self._vectors)
        return self._vectors if is_whole else self._vectors[self._known]

    def _add_examples(self, X: csr_matrix, Y: csr_matrix) -> None:
        self.space_, self.counts_ = with_examples(self.space_, self.counts_, X, Y)
        self._set_vectors(self.space_.embed(X[evenly(X.shape[0], TYPICAL)]))

    def _partial_fit(self, data: TrainingData) -> None:
        self._add_examples(as_csr(data.X), data.Y)

    def without_examples_of(self, labels: np.ndarray) -> DualEncoder:
        other, vectors = copy(self), np.array(self.space_.table.weight)
        vectors[labels] = 0.0
        other.space_ = self.space_.with_labels(vectors)
        other._set_vectors(np.empty((0, vectors.shape[1])), kind="exact")
        return other

    def _ranked(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return labels and scores before calibration; examples without features have none."""
        z = self.space_.embed(X)
        places, cosines = self.index_.search(z, k)
        found = (places >= 0) & z.any(axis=1, keepdims=True)
        labels = np.full(places.shape, -1, np.int64)
        labels[found] = self._known[places[found]]
        scores = np.float32(self.space_.scale.item()) * cosines
        return labels, np.where(found, scores, np.float32(0.0))

    def _predict(self, X: Features, k: int) -> Ranking:
        labels, scores = self._ranked(as_csr(X), k)
        return Ranking(labels, self.calibration_(labels, scores))

    def embed(self, X: Any) -> np.ndarray:
        """Return the vectors of texts in the space.

        Parameters
        ----------
        X : csr_matrix or array-like of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n, dim), float32
            Of length 1. A row without features is all zeros.
        """
        return self.space_.embed(as_csr(X))

    @property
    def label_vectors_(self) -> np.ndarray:
        """The vectors of the labels in the space, (n_labels, dim), of length 1."""
        return self._vectors

    def similar_labels(self, label: int, k: int) -> list[tuple[int, float]]:
        """Return the labels whose vectors have the largest cosine to the label's."""
        return nearest_vectors(self._vectors, label, k)

    def explain(self, X: Any, label: int, k: int = 5) -> LabelExplanation:
        """Return the features by how much the score falls without each; similar labels.

        Parameters
        ----------
        X : sparse matrix or array of shape (1, n_features)
            One example.
        label : int
            Column of Y.
        k : int, default 5
            Number of features and of labels.

        Returns
        -------
        LabelExplanation
            There are no training examples.
        """
        self._check_fitted()
        X = checked_example(self, X, label)
        vector = np.float32(self.space_.scale.item()) * self._vectors[label]
        changes = score_changes(X, lambda rows: self.space_.embed(rows) @ vector, k)
        return LabelExplanation(label, changes, self.similar_labels(label, k), [], [])

    def metadata(self) -> dict[str, Any]:
        return {"search": {"kind": self.index_.kind, "recall@5": self.index_.recall}}

    def state(self) -> dict[str, np.ndarray]:
        return {
            **self.space_.arrays(),
            "counts": self.counts_,
            "calibration": self.calibration_.state(),
            **joined_parts({"index": self.index_.state()}),
        }

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:
        return [
            *DualSpace.schema(),
            ints("counts", "labels", low=TRAINED, limit=2**53),
            scalars("calibration", 2),
            *index_schema(arrays, "index.", "searched labels", "code"),
        ]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.counts_ = arrays["counts"].astype(np.int64)
        self.space_ = DualSpace.restore(arrays)
        self.calibration_ = Calibration.restore(arrays["calibration"])
        self._compute_vectors()
        self.index_ = restore_index(self._searched(), with_prefix("index.", arrays))

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        dim, batch = params["dim"], params["batch_size"]
        drawn = params["n_negatives"] if params["negatives"] == "uniform" else 0
        own = batch * max(1, shape.label_nnz // max(1, shape.points))
        candidates = min(2 * own + drawn, shape.labels)
        return {
            "the data, cut in two, of length 1": 2 * shape.data_bytes,
            "label texts": 16 * shape.label_text_nnz + 16 * shape.labels,
            "the encoder, moments and the best so far": 16 * shape.features * dim,
            "vectors of labels, moments and the best so far": 16 * shape.labels * dim,
            "label vectors as they are searched": 8 * shape.labels * dim,
            "scores of a batch": 12 * batch * candidates,
            "vectors of a batch": 24 * dim * (batch + candidates),
            "the search index": index_bytes(shape.labels, dim),
        }
