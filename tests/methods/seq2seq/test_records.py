"""Records: brand and path as one sequence with NA, generated freely or restricted to valid ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import read_arrays
from labelspace.comparison.compare import _write_data
from labelspace.comparison.entrant import _taxonomy
from labelspace.data.dataset import Dataset
from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import InputError, ParameterError
from labelspace.features.label_texts import record_fields, record_texts
from labelspace.features.pipeline import pipeline_for
from labelspace.features.tokens import Tokens
from labelspace.methods.seq2seq.beam_search import NOT_REACHED, Decoder
from labelspace.methods.seq2seq.method import Seq2Seq
from labelspace.methods.seq2seq.objective import SequenceObjective
from labelspace.methods.seq2seq.outputs import END
from labelspace.methods.seq2seq.records import plan_records
from labelspace.methods.seq2seq.trie import Chain, Trie
from labelspace.model import training
from labelspace.nn.trainer import Batch
from support.fitted import restored

NAMES = ["toys", "toys > cars", "toys > cars > red", "home", "brand: acme", "brand: nova"]
PAIRS = [("toys > cars", "toys"), ("toys > cars > red", "toys > cars")]
TAXONOMY = Taxonomy.from_names([*PAIRS, ("home > never", "home")], NAMES)
ROWS = [
    ["toys", "toys > cars", "toys > cars > red", "brand: acme"],
    ["toys", "toys > cars", "brand: nova"],
    ["toys"],
    ["home", "brand: acme"],
    ["brand: nova"],  # no path
    [],  # no record
]
WORDS = ["details_brand:", "l0_category:", "l1_category:", "l2_category:", "na", "toys", "cars",
         "red", "home", "acme", "nova", "never"]  # fmt: skip
TINY = {
    "width": 16, "layers": 1, "heads": 2, "dropout": 0.0, "batch_size": 16, "linear_tree": False,
    "format": "record", "max_tokens": 8, "vocabulary": 120,
}  # fmt: skip


def labels_of(rows=ROWS):
    return csr_matrix([[float(name in row) for name in NAMES] for row in rows], dtype=np.float32)


def tokens_of(texts):
    """One token per word, ids from 3 in the order of WORDS, each + 1 as in a matrix of tokens."""
    ids = [[WORDS.index(word) + 3 + 1 for word in text.lower().split()] for text in texts]
    rows = [one + [0] * (3 - len(one)) for one in ids]
    return csr_matrix(np.array(rows, np.float32))


def plan(**options):
    given = {"short": False, "free": False, "own_fields": False, **options}
    return plan_records(labels_of(), TAXONOMY, tokens_of(record_texts(TAXONOMY)), 50, **given)


def in_words(tokens):
    return " ".join("END" if t == END else WORDS[t - 3] if t < 50 else "own" for t in tokens)


# --- what is written ------------------------------------------------------------------------------


def test_the_texts_of_a_record_are_those_of_the_slides():
    assert record_fields(TAXONOMY) == [
        "details_Brand:", "L0_category:", "L1_category:", "L2_category:",
    ]  # fmt: skip
    texts = record_texts(TAXONOMY)
    assert texts[: len(NAMES)] == ["toys", "cars", "red", "home", "acme", "nova"]
    assert texts[len(TAXONOMY) :] == [*record_fields(TAXONOMY), "NA"]


def test_an_example_is_one_sequence_with_na_where_it_has_no_label():
    outputs, indicators, n_tokens = plan()
    assert n_tokens == 50  # everything has a name
    written = []
    for row in range(5):
        places = [int(indicator[row].indices[0]) for indicator in indicators]
        parts = [
            part.trie.tokens[part.trie.paths[place]]
            for part, place in zip(outputs.parts, places, strict=True)
        ]
        written.append(in_words(np.concatenate(parts)))
    assert written == [
        "details_brand: acme l0_category: toys l1_category: cars l2_category: red END",
        "details_brand: nova l0_category: toys l1_category: cars l2_category: na END",
        "details_brand: na l0_category: toys l1_category: na l2_category: na END",
        "details_brand: acme l0_category: home l1_category: na l2_category: na END",
        "details_brand: nova l0_category: na l1_category: na l2_category: na END",
    ]
    assert [indicator[5].nnz for indicator in indicators] == [0, 0]
    assert len(outputs) == 3 * 5  # brands and NA, in any combination with paths and NA


def test_without_brands_the_record_has_levels_only():
    names = NAMES[:4]
    taxonomy = Taxonomy.from_names(PAIRS, names)
    assert record_fields(taxonomy) == ["L0_category:", "L1_category:", "L2_category:"]
    Y = csr_matrix(np.array([[1, 1, 1, 0], [0, 0, 0, 1]], np.float32))
    outputs, indicators, _ = plan_records(
        Y,
        taxonomy,
        tokens_of(record_texts(taxonomy)),
        50,
        short=False,
        free=False,
        own_fields=False,
    )
    (part,) = outputs.parts
    assert [in_words(part.trie.tokens[path]) for path in part.trie.paths] == [
        "l0_category: toys l1_category: cars l2_category: red END",
        "l0_category: home l1_category: na l2_category: na END",
    ]
    assert indicators[0].toarray().tolist() == [[1, 0], [0, 1]]


def test_a_new_t5_has_a_token_for_each_field_and_for_na():
    outputs, _, n_tokens = plan(own_fields=True)
    assert n_tokens == 50 + 5
    brand = outputs.parts[0].trie
    assert [len(path) for path in brand.paths] == [3, 3, 3]
    assert {int(brand.tokens[path[0]]) for path in brand.paths} == {50}  # the field


def test_a_brand_that_is_called_na_or_begins_like_another_keeps_apart():
    names = ["shoes", "shoes > boots", "brand: NA", "brand: acme", "brand: acme l0_category: acme"]
    taxonomy = Taxonomy.from_names([("shoes > boots", "shoes")], names)
    Y = csr_matrix(np.array([[1, 0, 1, 0, 0], [1, 0, 0, 1, 0], [1, 0, 0, 0, 1], [1, 0, 0, 0, 0]]))
    texts = [
        text.replace("shoes", "toys").replace("boots", "cars") for text in record_texts(taxonomy)
    ]
    outputs, _, n_tokens = plan_records(
        Y.astype(np.float32), taxonomy, tokens_of(texts), 50, short=False, free=False,
        own_fields=False,
    )  # fmt: skip
    brand = outputs.parts[0].trie
    written = [in_words(brand.tokens[path]) for path in brand.paths]
    assert written == [
        "details_brand: na l0_category:",
        "details_brand: own l0_category:",
        "details_brand: acme l0_category:",
        "details_brand: own l0_category:",
    ]
    assert n_tokens == 52


def test_two_labels_for_a_field_and_data_without_a_taxonomy_are_errors():
    rows = [*ROWS, ["brand: acme", "brand: nova"]]
    with pytest.raises(InputError, match=r"details_Brand: example 6 has 2; use format='paths'"):
        plan_records(labels_of(rows), TAXONOMY, None, 9, short=True, free=False, own_fields=True)
    with pytest.raises(InputError, match="needs a taxonomy"):
        Seq2Seq(**TINY).fit(np.eye(3), np.eye(3))


# --- chains of tries ------------------------------------------------------------------------------


def test_a_chain_has_the_transitions_of_its_tries():
    one = Trie.build([np.array(s) for s in ([3, 4], [3, 5], [6])])
    two = Trie.build([np.array(s) for s in ([4, 7], [4, 8, END])])
    chain = Chain.of([one, two])
    assert chain.max_length == 2 + 3
    for trie, root, first in zip((one, two), chain.roots, chain.first_edges, strict=True):
        for state, token in itertools.product(range(len(trie.outputs)), range(10)):
            found = trie.follow(np.array([state]), np.array([token]))
            wanted = np.where(found < 0, -1, found + root)
            assert chain.follow(np.array([state + root]), np.array([token])) == wanted
        edges = np.arange(len(trie.tokens))
        assert np.array_equal(chain.state_before(edges + first), trie.state_before(edges) + root)
        assert np.array_equal(chain.outputs[root : root + len(trie.outputs)], trie.outputs)


# --- training and decoding ------------------------------------------------------------------------


def fitted(decoding="short", **params):
    rng = np.random.default_rng(0)
    rows = [ROWS[i] for i in rng.integers(5, size=60)] + [[]]
    Y = labels_of(rows)
    X = np.hstack([0.5 * Y.toarray(), np.ones((61, 1), np.float32)])
    given = {**TINY, "decoding": decoding, "epochs": 1, "validation": 0.0, **params}
    return Seq2Seq(**given).fit(X, Y, taxonomy=TAXONOMY), csr_matrix(X), Y


def teacher_forced(model, X_row, tokens, valid_tokens):
    """Return log p of a sequence; `valid_tokens` returns what a step is normalised over."""
    t5 = model._decoder().model
    ids, mask = model.input_tokens_(X_row)
    before = torch.tensor([[0, *tokens[:-1]]])
    with torch.no_grad():
        logits = t5(input_ids=ids, attention_mask=mask, decoder_input_ids=before).logits[0]
    total = 0.0
    for place, token in enumerate(tokens):
        allowed = valid_tokens(tokens[:place], logits.shape[1])
        log_p = torch.log_softmax(logits[place, torch.tensor(allowed)], dim=0)
        total += float(log_p[allowed.index(token)])
    return total


def all_records(model):
    """Return the tokens of every combination of the parts, by the numbers of its sequences."""
    tries = model.outputs_.chain.tries
    return {
        combination: [
            int(token)
            for trie, place in zip(tries, combination, strict=True)
            for token in trie.tokens[trie.paths[place]]
        ]
        for combination in itertools.product(*(range(len(trie.paths)) for trie in tries))
    }


def valid_next(records):
    def allowed(before, _):
        return sorted({r[len(before)] for r in records if r[: len(before)] == list(before)})

    return allowed


@pytest.mark.parametrize("decoding", ["short", "whole"])
def test_restricted_search_of_full_width_scores_every_combination(decoding):
    model, X, _ = fitted(decoding, beams=40)
    records = all_records(model)
    assert len(records) == len(model.outputs_) == 15
    allowed = valid_next(list(records.values()))
    beams = model._decoder().generate(*model.input_tokens_(X[:2]))
    assert len(beams.score) == 2 * 15
    assert beams.valid.all()
    chain = model.outputs_.chain
    for example, score, reached in zip(beams.example, beams.score, beams.reached, strict=True):
        record = records[tuple(int(place) for place in chain.outputs[reached])]
        wanted = teacher_forced(model, X[int(example)], record, allowed)
        assert score == pytest.approx(wanted, abs=1e-9)
    p, invalid = model._label_probabilities(model._decoder(), X[:2])
    assert invalid == 0.0
    brand = p[:, 4:].sum(axis=1)
    assert (brand < 1).all()  # the rest is that of NA
    brands, of_first = chain.outputs[beams.reached[:, 0]], beams.example == 0
    by_brand = np.bincount(brands[of_first], np.exp(beams.score[of_first]))
    assert p[0, 4] == pytest.approx(by_brand[1], rel=1e-5)
    assert by_brand.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("decoding", ["short", "whole", "free"])
def test_the_loss_is_the_negative_log_likelihood_of_the_record(decoding):
    model, X, Y = fitted(decoding)
    indicators = model._plan(Y, TAXONOMY, None, model.input_tokens_.vocabulary)[1]
    records = all_records(model)
    allowed = valid_next(list(records.values()))
    if decoding == "free":

        def allowed(_, n):  # every token
            return list(range(n))

    rows = np.array([3, 60, 9, 20])  # 60 has no labels
    loss = SequenceObjective(model, X, indicators)(Batch(rows, np.random.default_rng(0)))
    wanted = [
        teacher_forced(model, X[int(row)],
                       records[tuple(int(i[row].indices[0]) for i in indicators)], allowed)
        for row in rows if row != 60
    ]  # fmt: skip
    assert float(loss.detach()) == pytest.approx(-np.mean(wanted), abs=1e-4)


class Scripted:
    """A decoder whose next tokens are given: all others are much less probable."""

    def __init__(self, model, tokens, n_tokens):
        self.decoder = Decoder(
            model._decoder().model, model.outputs_.chain, 1, [p.stop for p in model.outputs_.parts]
        )
        self.tokens, self.n_tokens = tokens, n_tokens

    def generate(self, ids, _):
        from labelspace.methods.seq2seq.beam_search import Beams

        decoder = self.decoder
        beams = Beams.begin(len(ids), len(decoder.chain.tries), decoder.latest)
        for token in self.tokens:
            log_p = torch.full((1, self.n_tokens), -50.0)
            log_p[0, token] = 0.0
            _, beams = decoder._extend_freely(beams, log_p)
        return beams


@pytest.mark.parametrize(
    ("text", "names", "is_valid"),
    [
        ("B acme 0 toys 1 cars 2 na END", ["toys", "toys > cars", "brand: acme"], True),
        ("B na 0 home 1 na 2 na END", ["home"], True),
        ("B nova 0 na 1 na 2 na END", ["brand: nova"], True),
        ("B cars 0 toys 1 cars 2 red END", ["toys", "toys > cars", "toys > cars > red"], False),
        ("B acme home 0 toys 1 na 2 na END", ["toys"], False),  # no brand has this name
        ("B acme 0 toys 1 home 2 na END", ["toys", "brand: acme"], False),
        ("B acme 0 toys END", ["brand: acme"], False),  # whether the name was complete is not known
        ("B acme 0 cars 1 na 2 na END", ["brand: acme"], False),
        ("0 toys 1 cars 2 na END", ["toys", "toys > cars"], False),  # the brand is missing
        ("B acme END", [], False),
        ("END", [], False),
    ],
)
def test_an_invalid_record_has_the_labels_of_its_valid_fields(text, names, is_valid):
    model, _, _ = fitted("free")
    words = {"END": END}
    own = iter(range(model.input_tokens_.vocabulary, 10**6))
    for word in ("B", "0", "1", "2", "na"):
        words[word] = next(own)
    for part in model.outputs_.parts:
        for path, row in zip(part.trie.paths, part.label_shares, strict=True):
            tokens = part.trie.tokens[path]
            for label in row.indices:
                name = NAMES[label].rpartition(" ")[2]
                if NAMES[label].startswith("brand"):
                    words[name] = int(tokens[1])
                else:
                    words[name] = int(tokens[2 * NAMES[label].count(">")])
    tokens = [words[word] for word in text.split()]
    n_tokens = model.t5_.get_input_embeddings().num_embeddings
    decoder = Scripted(model, tokens, n_tokens)
    beams = decoder.generate(torch.zeros(1, 1), None)
    assert bool(beams.valid[0]) == is_valid
    found = model._labels_of(beams, np.ones(1), 1).toarray()[0]
    assert [NAMES[i] for i in np.flatnonzero(found)] == [n for n in NAMES if n in names]
    again = restored(model)
    assert np.array_equal(again._labels_of(beams, np.ones(1), 1).toarray()[0], found)
    assert (beams.reached != NOT_REACHED).sum() <= 2


def test_text_that_ends_a_part_may_have_several_tokens():
    """Those of the next field, as a pretrained T5 reads it; a beam looks for all of them."""
    one = Trie.build([np.array(s) for s in ([3, 4, 8, 9], [3, 5, 8, 9])])
    two = Trie.build([np.array([6, END]), np.array([7, END])])
    chain = Chain.of([one, two])

    class Model:
        outputs_ = type("Outputs", (), {"chain": chain, "parts": [
            type("Part", (), {"stop": np.array(stop)}) for stop in ([8, 9], [END])]})  # fmt: skip

        def _decoder(self):
            return type("Decoder", (), {"model": None})

    def run(*tokens):
        beams = Scripted(Model(), tokens, 12).generate(torch.zeros(1, 1), None)
        return beams.valid.tolist(), chain.outputs[beams.reached[0]].tolist()

    assert run(3, 4, 8, 9, 6, END) == ([True], [0, 0])
    assert run(3, 8, 3, 8, 9, 7, END) == ([False], [-1, 1])
    assert run(3, 10, 9, 8, 9, 7, END) == ([False], [-1, 1])
    assert run(3, 10, 9, 7, END)[1][1] == chain.outputs[NOT_REACHED]


@pytest.mark.parametrize("decoding", ["short", "free"])
def test_records_are_learned_saved_and_loaded(decoding):
    model, X, Y = fitted(
        decoding, epochs=25 if decoding == "free" else 8, lr=0.02, batch_size=8, width=32, layers=2
    )
    labels, valid = model.generate(X[:60])
    assert valid.mean() > 0.95
    assert (labels != Y[:60]).nnz <= 6
    again = restored(model)
    one, other = model.predict(X, 4), again.predict(X, 4)
    assert np.array_equal(one.labels, other.labels)
    assert np.array_equal(one.scores, other.scores)
    assert (again.generate(X[:9])[0] != labels[:9]).nnz == 0
    assert model.metadata()["decoding"]["outputs"] == 15


def test_texts_are_written_as_records_in_training_and_in_a_comparison(tmp_path):
    texts = [" ".join(row).replace(">", "").replace("brand:", "") or "none" for row in ROWS] * 8
    data = Dataset(labels_of(ROWS * 8), texts=texts, label_names=NAMES, taxonomy=TAXONOMY)
    params = {**TINY, "epochs": 12, "lr": 0.02, "width": 32}
    model = training.train(data, method="seq2seq", **params)
    assert model.pipeline.text.names == "record"
    assert len(model.method.outputs_.parts) == 2
    assert {tag.name for tag in model.tag("home acme", k=2)} == {"home", "brand: acme"}
    # A process of a comparison reads names, which the kinds of labels are known by, from a file.
    _write_data(tmp_path / "data", data, data, pipeline_for(data, Seq2Seq(**TINY).text_features()))
    arrays, _ = read_arrays(tmp_path / "data")
    assert _taxonomy(arrays) == TAXONOMY
    assert arrays["label_names.shape"][0] == len(record_texts(TAXONOMY))


# --- the prompt -----------------------------------------------------------------------------------


def test_a_long_text_is_truncated_and_the_prompt_is_not():
    texts, prompt = ["red lamp " * 9, "red"], "lamp red {text} lamp lamp"
    found = Tokens(max_tokens=10, vocabulary=80, prompt=prompt).fit(texts).transform(texts)
    red, lamp = found[1].data[[1, 0]].tolist()
    assert found[1].data.tolist() == [lamp, red, red, lamp, lamp]  # there is room
    assert found[0].data.tolist() == [lamp, red, *[red, lamp] * 3, lamp, lamp]
    with pytest.raises(ParameterError, match="the prompt alone has 5 tokens"):
        Tokens(max_tokens=5, vocabulary=80, prompt=prompt).fit(texts)
