"""Seq2Seq: a T5 that generates the path of a label, after Pathak (2024).

An output is a path, level by level, as tokens (`outputs.py`), or a record of the brand and the path
(`records.py`). Its probability is the product over its tokens of

    p(token | text, previous tokens)    normalised over the tokens that continue a valid output

and the probability of a label is the sum over the outputs that contain it, as far as beam search
through the trie of valid outputs finds them (`beam_search.py`, `trie.py`). An example with several
paths is trained on each of them (`objective.py`).

The T5 is stacked with linear classifiers on the same tokens without their order
(`components/linear_companion.py`); linear_tree=False is the T5 alone, as in the source.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import expect
from labelspace._core.schema import Elsewhere, Schema, filled, scalars, sizes_of
from labelspace._core.sparse import as_csr, checked_features
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
from labelspace.methods.parameters import (
    AUTO,
    BATCH_SIZE,
    EPOCHS,
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
from labelspace.methods.presets import preset
from labelspace.methods.registry import method_class
from labelspace.methods.search_range import between
from labelspace.methods.seq2seq.beam_search import NOT_REACHED, Beams, Decoder
from labelspace.methods.seq2seq.defaults import SMALL, resolve
from labelspace.methods.seq2seq.model import (
    BagOfTokens,
    InputTokens,
    pretrained_t5,
    restored_t5,
    small_t5,
    t5_arrays,
    t5_schema,
    vocabulary_of,
)
from labelspace.methods.seq2seq.objective import SequenceObjective
from labelspace.methods.seq2seq.outputs import Outputs, plan_outputs
from labelspace.methods.seq2seq.presets import PAPER
from labelspace.methods.seq2seq.records import plan_records
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

MAX_FLOAT64_WEIGHTS = 20_000_000  # weights up to which prediction on a CPU is in float64
PREDICTED_AT_A_TIME = 32  # examples per beam search, to bound the memory
MAX_SCORED = 500  # examples of the hold-out that are scored after each epoch


class Seq2Seq(Method):
    """A T5 that generates the path of a label, restricted to the trie of valid paths.

    For labels that form paths and whose names occur in the text, or for a pretrained T5 on a GPU.
    A T5 that generates the brand and the category levels of a product is the baseline of [1]_;
    here it is stacked with linear classifiers, which linear_tree=False leaves out. The package
    `transformers` is required: `pip install 'labelspace[t5]'`.

    X are token ids + 1 in order, as `text_features` returns them, or any other features. The paths
    of the taxonomy are generated; without one, a path is a label. `fit` takes `label_names`, for
    records those of `labelspace.features.label_texts.record_texts`; without them each node has a
    token of its own.

    Attributes
    ----------
    params_ : SimpleNamespace
        The parameters as they were fitted: every "auto" is a value.
    n_features_in_, n_labels_ : int
    t5_ : transformers.T5ForConditionalGeneration
        The fitted T5.
    history_ : list of dict
        Loss and validation score per epoch.

    See Also
    --------
    TreeSpace : Embeds labels and examples in a space per level of the tree.

    References
    ----------
    .. [1] Pathak. "Hierarchical Label Embedding for Xtreme Multi-Label Classification". Slides,
       Indian Institute of Technology Kharagpur, 2024.

    Examples
    --------
    Features of any kind are tokens, those of the largest values first:

    >>> import numpy as np
    >>> from labelspace import Seq2Seq
    >>> X = Y = np.eye(3)[np.tile([0, 1, 2], 4)]
    >>> model = Seq2Seq(width=8, heads=1, layers=1, epochs=2)
    >>> model.fit(X, Y).predict(X[:2], k=1).labels.tolist()  # doctest: +SKIP
    [[0], [1]]
    """

    name: ClassVar[str] = "seq2seq"
    needs_label_names: ClassVar[bool] = True
    summary: ClassVar[str] = "a T5 that generates the path of a label, token by token"

    model: str = text(
        "Initial T5: the directory or hub name of a pretrained one; small for a new one.",
        default=SMALL,
        group="usual",
    )
    width: int = integer("Width of the states of a new T5.", default=128, group="usual", low=1)
    layers: int = integer(
        "Layers of the encoder, and of the decoder, of a new T5.", default=2, low=1
    )
    heads: int = integer("Attention heads of a new T5; a divisor of the width.", default=4, low=1)
    dropout: float = number(
        "Dropout of a new T5.",
        default=0.1,
        low=0.0,
        high=0.9,
        search=between(0.0, 0.4),
    )
    max_tokens: int = integer(
        "Maximum number of tokens per text; further tokens are ignored.",
        default=48,
        group="usual",
        low=1,
    )
    vocabulary: int = integer(
        "Size of the vocabulary of a tokenizer trained on the texts.", default=8000, low=100
    )
    preset: str | None = preset(paper=PAPER)
    prompt: str = text(
        "Template of the input, with {text} for the text.", default="{text}", group="paper"
    )
    format: str = choice(
        "Outputs of an example: paths, one per path and per label outside of the taxonomy; record, "
        "one with all of them, and NA for each level and kind that it has no label of.",
        "paths",
        "record",
        default="paths",
        group="paper",
    )
    decoding: str = choice(
        "Tokens to generate: short, only those with an alternative; whole, all tokens of a valid "
        "output; free, all tokens and not restricted to valid outputs.",
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
    epochs: int = having(
        EPOCHS,
        default=20,
        search=between(8, 40),
    )
    batch_size: int | Auto = BATCH_SIZE
    lr: float | Auto = number(
        "Learning rate of AdamW.",
        default=AUTO,
        group="usual",
        low=0.0,
        auto="0.002 for a new T5, 0.0003 for a pretrained one",
        search=between(0.0001, 0.01, log=True),
    )
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
        """Return the tokenizer of the T5, whose rows are token ids in order."""
        from labelspace.features.tokens import Tokens

        return Tokens(
            max_tokens=self.max_tokens,
            vocabulary=self.vocabulary,
            source="" if self.model == SMALL else self.model,
            prompt=self.prompt,
            names="record" if self.format == "record" else "levels",
        )

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve(params, shape)

    def _fit(self, data: TrainingData) -> None:
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed)
        X, Y, valid = hold_out.X, hold_out.Y, hold_out.valid
        self.input_tokens_ = InputTokens.of(X, data.label_names, self.params_.max_tokens)
        self.bag_ = BagOfTokens.of(self.input_tokens_, X)
        names = data.label_names if self.input_tokens_.in_order else None
        first_own = self.input_tokens_.vocabulary
        if self.params_.model != SMALL:
            first_own = max(first_own, vocabulary_of(self.params_.model))
        self.outputs_, indicators, n_tokens = self._plan(Y, data.taxonomy, names, first_own)
        self.calibration_, self.invalid_share_ = Calibration(eps=EPS), 0.0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.params_.seed)
            self.t5_ = self._initial_t5(n_tokens).to(self._device())
        self.decoder_: Decoder | None = None
        self._train(X, indicators, Y, valid, data)
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

    def _plan(
        self, Y: csr_matrix, taxonomy: Taxonomy | None, names: csr_matrix | None, first_own: int
    ) -> tuple[Outputs, list[csr_matrix], int]:
        """Return the outputs, those of each example by part, and the number of tokens."""
        short, free = (self.params_.decoding == kind for kind in ("short", "free"))
        if self.params_.format == "record":
            # A new T5 knows no words: there, a field's name would only be a longer sequence.
            own = self.params_.model == SMALL
            return plan_records(
                Y, taxonomy, names, first_own, short=short, free=free, own_fields=own
            )
        found = plan_outputs(Y, taxonomy, names, first_own, short=short, free=free)
        return found[0], [found[1]], found[2]

    def _initial_t5(self, n_tokens: int) -> Any:
        """Return the T5 to train: a new or a pretrained one."""
        if self.params_.model != SMALL:
            return pretrained_t5(self.params_.model, n_tokens)
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
        indicators: Sequence[csr_matrix],
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> None:
        """Train the T5; stop early by the hold-out."""
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
        watch(data.callbacks, self._rank_generated, (X, Y), valid, most=MAX_SCORED)
        objective = SequenceObjective(self, X, indicators)
        task = TrainingTask(dict(self.t5_.named_parameters()), objective, adam, score)
        self.history_ = trainer.run(task, X.shape[0])

    def _device(self) -> str:
        """Return the device to train on."""
        if self.params_.device == "cuda" and not torch.cuda.is_available():
            raise ParameterError(
                "seq2seq.device='cuda': torch finds no GPU; use device='cpu' or 'auto'"
            )
        return str(self.params_.device)

    def _decoder(self) -> Decoder:
        """Return a decoder with a copy of the current T5, for prediction."""
        model = copy.deepcopy(self.t5_).eval()
        small = sum(weights.numel() for weights in model.parameters()) <= MAX_FLOAT64_WEIGHTS
        if small and model.shared.weight.device.type == "cpu":
            # Rounding in float32 depends on the batch; with float64 the scores do not.
            model = model.double()
        stops = [part.stop for part in self.outputs_.parts]
        free = self.params_.decoding == "free"
        return Decoder(model, self.outputs_.chain, self.params_.beams, stops if free else None)

    def _label_probabilities(self, decoder: Decoder, X: csr_matrix) -> tuple[csr_matrix, float]:
        """Return uncalibrated probabilities of labels, and the share of invalid first outputs."""
        parts = [csr_matrix((0, self.outputs_.n_labels), dtype=np.float32)]
        invalid = 0
        for beams, n in self._generated(decoder, X):
            first = beams.take(beams.best(1))
            # An example without a finished output has no valid one either.
            invalid += n - int(np.count_nonzero(first.valid))
            parts.append(self._labels_of(beams, np.exp(beams.score), n))
        return vstack(parts, format="csr"), invalid / max(1, X.shape[0])

    def _generated(self, decoder: Decoder, X: csr_matrix) -> Iterator[tuple[Beams, int]]:
        """Yield the finished beams of a block of examples, and the number of these."""
        for start in range(0, X.shape[0], PREDICTED_AT_A_TIME):
            block = X[start : start + PREDICTED_AT_A_TIME]
            yield decoder.generate(*self.input_tokens_(block)), block.shape[0]

    def _labels_of(self, beams: Beams, values: np.ndarray, n: int) -> csr_matrix:
        """Return the sum over an example's beams of a value for each of their labels."""
        chain = self.outputs_.chain
        found = csr_matrix((n, self.outputs_.n_labels), dtype=np.float32)
        for place, part in enumerate(self.outputs_.parts):
            state = beams.reached[:, place]
            ended = state != NOT_REACHED
            if part.state_labels is None:
                rows, labels = chain.outputs[state[ended]], part.label_shares
            else:
                rows, labels = state[ended] - chain.roots[place], part.state_labels
            shape = (n, labels.shape[0])
            p = csr_matrix((values[ended], (beams.example[ended], rows)), shape=shape)
            of_part = csr_matrix(p @ labels, dtype=np.float32)
            found = of_part if place == 0 else csr_matrix(found + of_part)
        return found

    def generate(self, X: Any) -> tuple[csr_matrix, np.ndarray]:
        """Return the labels of the most probable output of each row.

        Unlike `predict`, this is what the T5 writes, without other outputs, calibration and linear
        classifiers.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, features)

        Returns
        -------
        labels : csr_matrix of shape (n, labels)
            1 for each label that the output names. An output that is not valid has the labels of
            its valid fields.
        valid : ndarray of shape (n,)
            Whether the output is valid; False if there is none.
        """
        self._check_fitted()
        X = as_csr(checked_features(X, self.n_features_in_))
        if self.decoder_ is None:
            self.decoder_ = self._decoder()
        parts, valid = [csr_matrix((0, self.n_labels_), dtype=np.float32)], [np.empty(0, bool)]
        for beams, n in self._generated(self.decoder_, X):
            first = beams.take(beams.best(1))
            named = self._labels_of(first, np.ones(len(first.score)), n)
            named.data = np.round(named.data)  # ancestors that half of the examples have
            named.eliminate_zeros()
            parts.append(named)
            of_block = np.zeros(n, bool)
            of_block[first.example] = first.valid
            valid.append(of_block)
        return vstack(parts, format="csr"), np.concatenate(valid)

    def _score(self, X: csr_matrix, Y: csr_matrix, counts: LabelCounts) -> float:
        """Return the validation score of the current T5."""
        rows = evenly(X.shape[0], MAX_SCORED)
        best = self._rank_generated(X[rows], min(5, Y.shape[1]))
        return measure(self.params_.metric, best, Y[rows], counts)

    def _rank_generated(self, X: csr_matrix, k: int) -> Ranking:
        """Rank by the current T5 only; scores are not calibrated."""
        return Ranking.from_sparse(self._label_probabilities(self._decoder(), X)[0], k)

    def _calibrate(self, X: csr_matrix, Y: csr_matrix, k: int) -> Ranking:
        """Calibrate on a hold-out; return the k best labels of its examples."""
        found, self.invalid_share_ = self._label_probabilities(self._decoder(), X)
        best = Ranking.from_sparse(found, min(CALIBRATION_K, Y.shape[1]))
        self.calibration_ = Calibration.fit(best.labels, best.scores, Y, EPS)
        return self._calibrated(Ranking.from_sparse(found, k))

    def _calibrated(self, best: Ranking) -> Ranking:
        """Return the ranking with calibrated scores."""
        return Ranking(best.labels, self.calibration_(best.labels, best.scores))

    def _predict(self, X: Features, k: int) -> Ranking:
        if self.decoder_ is None:
            self.decoder_ = self._decoder()
        found, _ = self._label_probabilities(self.decoder_, as_csr(X))
        if self.companion_ is None:
            return self._calibrated(Ranking.from_sparse(found, k))
        neural = Ranking.from_sparse(found, min(max(k, CANDIDATES), self.n_labels_))
        return self.companion_.rank(self.bag_(as_csr(X)), self._calibrated(neural), k)

    def metadata(self) -> dict[str, Any]:
        """Return the size of the T5 and of its outputs, and the share of invalid first outputs."""
        decoding = {
            "weights": sum(weights.numel() for weights in self.t5_.parameters()),
            "outputs": len(self.outputs_),
            "max_length": self.outputs_.chain.max_length,
            "invalid_share": self.invalid_share_,
        }
        return {"decoding": decoding}

    def state(self) -> dict[str, np.ndarray]:
        """Return all fitted arrays, which `load_state` takes."""
        tokens = self.input_tokens_
        linear = {} if self.companion_ is None else self.companion_.state()
        return {
            **prefixed("linear_tree.", linear),
            **t5_arrays(self.t5_),
            **prefixed("outputs.", self.outputs_.state()),
            "input_tokens": np.array([tokens.in_order, tokens.vocabulary, tokens.max_length]),
            "idf": self.bag_.idf,
            "calibration": self.calibration_.state(),
            "invalid_share": np.array(self.invalid_share_),
        }

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:
        """Declare the arrays of `state`; `restored_t5` compares the weights with their settings."""
        return [
            *t5_schema(arrays),
            *Outputs.schema(arrays, "outputs."),
            sizes_of("input_tokens", "in order", "vocabulary", "tokens of a text"),
            scalars("idf", "vocabulary", rules=(filled,)),
            scalars("calibration", 2),
            scalars("invalid_share"),
            Elsewhere("linear_tree."),
        ]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the fitted attributes from what `state` returned; the arrays may be read-only."""
        # A model that was trained on a GPU is loaded onto the CPU if there is no GPU.
        wanted = self.params_.device != "cpu" and torch.cuda.is_available()
        self.t5_ = restored_t5(arrays).to("cuda" if wanted else "cpu").eval()
        n_tokens = self.t5_.get_input_embeddings().num_embeddings
        outputs = with_prefix("outputs.", arrays)
        self.outputs_ = Outputs.restore(outputs)
        in_order, vocabulary, max_length = (int(number) for number in arrays["input_tokens"])
        expect(vocabulary <= n_tokens, "the tokens do not match the network")
        self.input_tokens_ = InputTokens(bool(in_order), vocabulary, max_length)
        self.decoder_ = None
        self.bag_ = BagOfTokens(self.input_tokens_, arrays["idf"])
        sizes = vocabulary if in_order else self.n_features_in_, self.n_labels_
        linear = with_prefix("linear_tree.", arrays)
        self.companion_ = None
        if linear:
            self.companion_ = LinearCompanion.restore(method_class(TREE_METHOD), linear, *sizes)
        self.calibration_ = Calibration.restore(arrays["calibration"], EPS)
        self.invalid_share_ = float(arrays["invalid_share"])

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        """Return the bytes of memory that `fit` takes at its peak, by purpose."""
        batch, width = params["batch_size"], params["width"]
        tokens = shape.features + shape.labels + params["vocabulary"]
        states = batch * params["max_tokens"] * width * params["layers"]
        scores = batch * params["max_outputs"] * min(tokens, shape.labels + 1000)
        if params["decoding"] == "free":  # scores of all tokens at about 32 places of an output
            scores = batch * params["max_outputs"] * 32 * params["vocabulary"]
        needs = {}
        if params["linear_tree"]:
            needs["linear classifiers"] = companion_bytes(method_class(TREE_METHOD), shape)
        return needs | {
            "the data, split in two": shape.data_bytes,
            "token vectors, moments and best epoch": 24 * tokens * width,
            "layers, moments and best epoch": 24 * 30 * params["layers"] * width**2,
            "states of a batch": 4 * 40 * states,
            "scores of a batch": 4 * 6 * scores,
        }
