"""Seq2Seq: a T5 reads the text and writes the label's path (after Pathak, IIT Kharagpur 2024).

An output is a path written level by level; its probability is the product over its tokens of

    p(token | text, what is written)    among the tokens with which a valid path can go on

and a label is as likely as the outputs that contain it, summed over the beams of a search through
the trie of valid paths. An example with several paths is trained on each of them.

Linear classifiers on the same tokens, whatever their order, stand beside it
(`components/linear_companion.py`); linear_tree=False leaves the T5 alone, as the paper has it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import are_numbers, expect
from labelspace._core.sparse import as_csr, checked_features, digest
from labelspace.components.calibration import CALIBRATION_K, EPS, Calibration
from labelspace.components.holdout import HoldOut
from labelspace.components.linear_companion import (
    CANDIDATES,
    TREE_METHOD,
    LinearCompanion,
    companion_bytes,
)
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ParameterError
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.defaults import autos, resolve_shared
from labelspace.methods.parameters import (
    AUTO,
    BATCH_SIZE,
    METRIC,
    PATIENCE,
    SEED,
    VALIDATION,
    Auto,
    choice,
    flag,
    having,
    integer,
    number,
    text,
)
from labelspace.methods.registry import method_class
from labelspace.methods.seq2seq.beam_search import OFF, Writer
from labelspace.methods.seq2seq.model import (
    Bag,
    Reading,
    fetched_t5,
    restored_t5,
    small_t5,
    t5_arrays,
    vocabulary_of,
)
from labelspace.methods.seq2seq.objective import WritingObjective
from labelspace.methods.seq2seq.outputs import Outputs, plan_outputs
from labelspace.metrics.ranking import measure
from labelspace.nn.optimisers import TorchOptimiser
from labelspace.nn.trainer import Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import listeners
from labelspace.runs.history import watch
from labelspace.search.tuning import evenly

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.features.tokens import Tokens
    from labelspace.runs.callbacks import Callback

SMALL = "small"
EXACT_BELOW = 20_000_000  # weights up to which prediction on a processor is in float64
PREDICTED_AT_A_TIME = 32
MOST_SCORED = 500  # examples of the validation cut that are looked at after each epoch


class Seq2Seq(Method):
    """A T5 that writes label paths; beams through the trie of valid ones give the ranking."""

    name: ClassVar[str] = "seq2seq"
    needs_label_names: ClassVar[bool] = True  # `fit` takes their names as tokens
    summary: ClassVar[str] = "a T5 that reads the text and writes the label's path"

    model: str = text(
        "T5 to start from: a directory or a hub name; small is a new one.",
        default=SMALL,
        group="usual",
    )
    width: int = integer("Width of the new T5's states.", default=128, group="usual", low=1)
    layers: int = integer("Number of layers of its encoder, and of its decoder.", default=2, low=1)
    heads: int = integer("Number of attention heads; they divide the width.", default=4, low=1)
    dropout: float = number("Dropout of the new T5.", default=0.1, low=0.0, high=0.9)
    max_tokens: int = integer(
        "Number of tokens of a text that are read; the rest is cut.",
        default=48,
        group="usual",
        low=1,
    )
    vocabulary: int = integer(
        "Number of word pieces that the tokenizer is trained to.", default=8000, low=100
    )
    prompt: str = text(
        "Template of the input, with {text} for the text.", default="{text}", group="paper"
    )
    decoding: str = choice(
        "Tokens that are generated: short, only those that decide between valid paths; whole, all "
        "tokens of a valid path; free, whole and not restricted to valid paths.",
        "short",
        "whole",
        "free",
        default="short",
        group="paper",
    )
    beams: int = integer("Number of beams of the beam search.", default=16, group="usual", low=1)
    max_outputs: int = integer(
        "Maximum number of target sequences per example and step.", default=4, low=1
    )
    epochs: int = integer(
        "Maximum number of passes over the training data.", default=20, group="usual", low=1
    )
    batch_size: int | Auto = BATCH_SIZE
    lr: float = number("Learning rate of AdamW.", default=0.002, group="usual", low=0.0)
    patience: int = having(PATIENCE, default=3)
    validation: float | Auto = VALIDATION
    metric: str = METRIC
    linear_tree: bool = flag(
        "Combine the T5 with linear classifiers on the words of the text.",
        default=True,
        group="usual",
    )
    device: str = choice(
        "Device to train on.", "cpu", "cuda", default=AUTO, auto="a GPU if there is one"
    )
    seed: int = SEED

    def text_features(self) -> Tokens:
        """How texts become rows for this model: token ids in order, by the model's tokenizer."""
        from labelspace.features.tokens import Tokens

        return Tokens(
            max_tokens=self.max_tokens,
            vocabulary=self.vocabulary,
            source="" if self.model == SMALL else self.model,
            prompt=self.prompt,
        )

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        valid: tuple[Any, Any] | None = None,
        taxonomy: Taxonomy | None = None,
        callbacks: Sequence[Callback] = (),
        label_names: Any = None,
    ) -> Self:
        """As every method; X may hold token ids in order, as `text_features` makes them.

        label_names  (nodes of the taxonomy, or labels; places) token ids + 1 that write each one,
                     as `Tokens.transform_names` makes them; without it each has its own token
        """
        names = None if label_names is None else as_csr(checked_features(label_names))
        self._names = names
        try:
            return super().fit(X, Y, valid=valid, taxonomy=taxonomy, callbacks=callbacks)
        finally:
            del self._names

    def _identity(
        self,
        X: Features,
        Y: csr_matrix,
        valid: tuple[Features, csr_matrix] | None = None,
        taxonomy: Taxonomy | None = None,
    ) -> str:
        """Of the names that label paths are written with, too."""
        return digest(super()._identity(X, Y, valid, taxonomy), self._names)

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return {**resolve_shared(params, shape), **autos(params, {"device": device})}

    def _fit(self, data: TrainingData) -> None:
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed)
        X, Y, valid = hold_out.X, hold_out.Y, hold_out.valid
        self.reading_ = Reading.of(X, self._names, self.params_.max_tokens)
        self.bag_ = Bag.of(self.reading_, X)
        names = self._names if self.reading_.in_order else None
        first_own = self.reading_.vocabulary
        if self.params_.model != SMALL:
            first_own = max(first_own, vocabulary_of(self.params_.model))
        self.outputs_, has, n_tokens = plan_outputs(
            Y, data.taxonomy, names, first_own, short=self.params_.decoding == "short"
        )
        self.calibration_, self.invalid_ = Calibration(eps=EPS), 0.0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.params_.seed)
            self.t5_ = self._begin(n_tokens, first_own).to(self._device())
        self.writer_: Writer | None = None
        self._train(X, has, Y, valid, data)
        self.t5_.eval()
        self.companion_: LinearCompanion | None = None
        if valid is not None:
            neural = self._calibrate(*valid, min(CANDIDATES, Y.shape[1]))
            if self.params_.linear_tree:
                self.companion_ = LinearCompanion.fit(
                    method_class(TREE_METHOD),
                    (self.bag_(X), Y),
                    (self.bag_(valid[0]), valid[1]),
                    neural,
                    data.taxonomy,
                    self.params_.seed,
                    refit=len(hold_out.held_rows) > 0,
                    callbacks=listeners(data.callbacks, "linear_tree"),
                )

    def _begin(self, n_tokens: int, first_own: int) -> Any:
        if self.params_.model != SMALL:
            return fetched_t5(self.params_.model, n_tokens, first_own)
        return small_t5(
            n_tokens,
            width=self.params_.width,
            layers=self.params_.layers,
            heads=self.params_.heads,
            dropout=self.params_.dropout,
        )

    def _train(
        self,
        X: csr_matrix,
        has: csr_matrix,
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> None:
        trainer = Trainer(
            epochs=self.params_.epochs,
            batch_size=self.params_.batch_size,
            seed=self.params_.seed,
            schedule="linear",
            warmup=0.05,
            patience=self.params_.patience,
            callbacks=data.callbacks,
            identity=data.identity,
        )
        self.t5_.train()
        adam = TorchOptimiser(torch.optim.AdamW(self.t5_.parameters(), lr=self.params_.lr))
        counts = LabelCounts.of(Y)
        score = None if valid is None else lambda: self._score(*valid, counts)
        watch(data.callbacks, self._rank_written, (X, Y), valid, most=MOST_SCORED)
        objective = WritingObjective(self, X, has)
        learner = TrainingTask(dict(self.t5_.named_parameters()), objective, adam, score)
        self.history_ = trainer.run(learner, X.shape[0])

    def _device(self) -> str:
        """Where to train."""
        if self.params_.device == "cuda" and not torch.cuda.is_available():
            raise ParameterError("seq2seq.device='cuda': there is no GPU that torch can use")
        return str(self.params_.device)

    def _writer(self) -> Writer:
        """A copy of the model as it is now, made for prediction."""
        model = copy.deepcopy(self.t5_).eval()
        small = sum(weights.numel() for weights in model.parameters()) <= EXACT_BELOW
        if small and model.shared.weight.device.type == "cpu":
            # What float32 rounds depends on the batch; after float64 the scores are the same.
            model = model.double()
        return Writer(
            model, self.outputs_.trie, self.params_.beams, self.params_.decoding == "free"
        )

    def _raw(self, writer: Writer, X: csr_matrix) -> tuple[csr_matrix, float]:
        """Probabilities of labels before calibration, and the share of invalid first outputs."""
        outputs, invalid = self.outputs_, 0
        parts = [csr_matrix((0, outputs.carries.shape[1]), dtype=np.float32)]
        for start in range(0, X.shape[0], PREDICTED_AT_A_TIME):
            block = X[start : start + PREDICTED_AT_A_TIME]
            beams = writer.write(*self.reading_(block))
            first = beams.take(beams.best(1))
            # An example without a finished output has written nothing valid either.
            invalid += block.shape[0] - int(np.count_nonzero(first.state != OFF))
            beams = beams.take(np.flatnonzero(beams.state != OFF))
            found = outputs.trie.outputs[beams.state]
            shape = (block.shape[0], outputs.carries.shape[0])
            p = csr_matrix((np.exp(beams.score), (beams.example, found)), shape=shape)
            parts.append(csr_matrix(p @ outputs.carries, dtype=np.float32))
        return vstack(parts, format="csr"), invalid / max(1, X.shape[0])

    def _score(self, X: csr_matrix, Y: csr_matrix, counts: LabelCounts) -> float:
        rows = evenly(X.shape[0], MOST_SCORED)
        best = self._rank_written(X[rows], min(5, Y.shape[1]))
        return measure(self.params_.metric, best, Y[rows], counts)

    def _rank_written(self, X: csr_matrix, k: int) -> Ranking:
        """Rank by what the T5 of the moment writes alone; scores are not calibrated."""
        return Ranking.from_sparse(self._raw(self._writer(), X)[0], k)

    def _calibrate(self, X: csr_matrix, Y: csr_matrix, k: int) -> Ranking:
        """Calibrate on a hold-out; return the k best labels of its examples."""
        raw, self.invalid_ = self._raw(self._writer(), X)
        best = Ranking.from_sparse(raw, min(CALIBRATION_K, Y.shape[1]))
        self.calibration_ = Calibration.fit(best.labels, best.scores, Y, EPS)
        return self._calibrated(Ranking.from_sparse(raw, k))

    def _calibrated(self, best: Ranking) -> Ranking:
        return Ranking(best.labels, self.calibration_(best.labels, best.scores))

    def _predict(self, X: Features, k: int) -> Ranking:
        if self.writer_ is None:
            self.writer_ = self._writer()
        raw, _ = self._raw(self.writer_, as_csr(X))
        if self.companion_ is None:
            return self._calibrated(Ranking.from_sparse(raw, k))
        neural = Ranking.from_sparse(raw, min(max(k, CANDIDATES), self.n_labels_))
        return self.companion_.rank(self.bag_(as_csr(X)), self._calibrated(neural), k)

    def metadata(self) -> dict[str, Any]:
        weights = sum(weights.numel() for weights in self.t5_.parameters())
        written = {
            "weights": weights,
            "outputs": len(self.outputs_.trie.walks),
            "longest": max(len(walk) for walk in self.outputs_.trie.walks),
            "invalid_share": self.invalid_,
        }
        return {"writing": written}

    def state(self) -> dict[str, np.ndarray]:
        reading, linear = self.reading_, {} if self.companion_ is None else self.companion_.state()
        return {
            **prefixed("linear_tree.", linear),
            **t5_arrays(self.t5_),
            **prefixed("outputs.", self.outputs_.state()),
            "reading": np.array([reading.in_order, reading.vocabulary, reading.longest]),
            "bag": self.bag_.idf,
            "calibration": self.calibration_.state(),
            "invalid": np.array(self.invalid_),
        }

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        # Where it was trained is no part of what was learned: without a GPU it runs without.
        wanted = self.params_.device != "cpu" and torch.cuda.is_available()
        self.t5_ = restored_t5(arrays).to("cuda" if wanted else "cpu").eval()
        n_tokens = self.t5_.get_input_embeddings().num_embeddings
        self.outputs_ = Outputs.restore(with_prefix("outputs.", arrays), n_tokens, self.n_labels_)
        in_order, vocabulary, longest = (int(number) for number in arrays["reading"])
        expect(1 <= vocabulary <= n_tokens and longest >= 1, "the tokens do not fit the network")
        self.reading_ = Reading(bool(in_order), vocabulary, longest)
        self.writer_ = None
        self.bag_ = Bag(self.reading_, arrays.get("bag", np.ones(vocabulary, np.float32)))
        fits = are_numbers(self.bag_.idf, vocabulary)
        expect(fits, "the weights of the words do not fit the tokens")
        sizes = vocabulary if in_order else self.n_features_in_, self.n_labels_
        linear = with_prefix("linear_tree.", arrays)
        self.companion_ = None
        if linear:
            self.companion_ = LinearCompanion.restore(method_class(TREE_METHOD), linear, *sizes)
        self.calibration_ = Calibration.restore(arrays["calibration"], EPS)
        self.invalid_ = float(arrays["invalid"])

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        batch, width = params["batch_size"], params["width"]
        tokens = shape.features + shape.labels + params["vocabulary"]
        states = batch * params["max_tokens"] * width * params["layers"]
        needs = {}
        if params["linear_tree"]:
            needs["linear classifiers"] = companion_bytes(method_class(TREE_METHOD), shape)
        return needs | {
            "the data, cut in two": shape.data_bytes,
            "token vectors, moments and the best so far": 24 * tokens * width,
            "layers, moments and the best so far": 24 * 30 * params["layers"] * width**2,
            "states of a batch": 4 * 40 * states,
            "scores of a batch": 4
            * 6
            * batch
            * params["max_outputs"]
            * min(tokens, shape.labels + 1000),
        }
