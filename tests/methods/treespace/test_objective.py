"""TreeSpace's loss against one written by its formula: value, and gradients of all weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import ParameterError
from labelspace.methods.treespace.geometry import GEOMETRIES, RADIUS
from labelspace.methods.treespace.method import TreeSpace
from labelspace.methods.treespace.objective import TreeObjective
from labelspace.methods.treespace.vectors import RANK
from labelspace.nn.trainer import Batch

NAMES = ["a", "b", "a>c", "a>d", "b>e", "a>c>f", "a>c>g", "b>e>h", "brand: x", "brand: y"]
WEIGHTS = {"prediction": 0.9, "consistency": 0.3, "regularisation": 0.2, "dimensionality": 0.1}
KINDS = ("node", "low-rank", "shared")


def products(n=40, seed=3):
    """Examples with a path of up to three levels and a brand."""
    rng = np.random.default_rng(seed)
    pairs = [(name, name.rpartition(">")[0]) for name in NAMES if ">" in name]
    place = {name: i for i, name in enumerate(NAMES)}
    Y = np.zeros((n, len(NAMES)), np.float32)
    for row in range(n):
        name = NAMES[rng.integers(8)]
        while name:
            Y[row, place[name]] = 1.0
            name = name.rpartition(">")[0]
        Y[row, 8 + rng.integers(2)] = 1.0
    X = csr_matrix(np.hstack([Y, rng.random((n, 6))]).astype(np.float32))
    return X, csr_matrix(Y), Taxonomy.from_names(pairs, NAMES)


def fitted(**changes):
    """A model after an epoch with large steps, so that no part of it is what it began with."""
    X, Y, taxonomy = products()
    given = {
        "dim": 7, "top_dim": 4, "width": 6, "spaces": 2, "epochs": 1, "batch_size": 8, "lr": 0.1,
        "keep": 1.0, "validation": 0.0, "neighbours": 0, **WEIGHTS, **changes,
    }  # fmt: skip
    model = TreeSpace(**given).fit(X, Y, taxonomy=taxonomy)
    return model, X, model.nodes_.indicator(Y)


def copies(model):
    """Return the trained weights as float64 leaves, each under the name that `gradients` uses."""
    vectors = model.vectors_
    found = {"bias": model.bias_, "scale": model.scale_}
    found |= {f"head.{s}": head for s, head in enumerate(model.encoder_.heads)}
    found |= {f"level.{pair}": matrix for pair, matrix in vectors.level_projections.items()}
    arrays = {f"offset.{s}": table.weight for s, table in enumerate(vectors.offsets)}
    arrays |= {f"node.{pair}": table.weight for pair, table in vectors.node_projections.items()}
    found |= {name: torch.from_numpy(array) for name, array in arrays.items()}
    return {name: one.detach().double().clone().requires_grad_() for name, one in found.items()}


def gradients(model):
    """Return the gradients that the optimiser sees; rows that a batch does not use have zeros."""
    vectors = model.vectors_
    found = {"bias": model.bias_.grad, "scale": model.scale_.grad}
    found |= {f"head.{s}": head.grad for s, head in enumerate(model.encoder_.heads)}
    found |= {f"level.{pair}": one.grad for pair, one in vectors.level_projections.items()}
    tables = {f"offset.{s}": table for s, table in enumerate(vectors.offsets)}
    tables |= {f"node.{pair}": table for pair, table in vectors.node_projections.items()}
    for name, table in tables.items():
        full = torch.zeros(table.weight.shape)
        if table._leaf.grad is not None:
            full[torch.from_numpy(np.asarray(table._ids, np.int64))] = table._leaf.grad
        found[name] = full
    return found


def normalised(vector, geometry):
    if geometry == "euclidean":
        return vector / vector.norm()
    return vector / (1 + vector @ vector / RADIUS**2).sqrt()


def ball_distance(a, b):
    """The Poincare distance of the points of two tangents at the centre."""
    x, y = (tangent * torch.tanh(tangent.norm()) / tangent.norm() for tangent in (a, b))
    gap = 2 * (x - y) @ (x - y) / ((1 - x @ x) * (1 - y @ y))
    return torch.arccosh(1 + gap)


def matrices_of(model, weights, parent, pair):
    """Return the matrices that add up to the projection of a parent's vector."""
    a, b = (model.layout_.dims[space] for space in pair)
    found = [weights[f"level.{pair}"]] if f"level.{pair}" in weights else []
    if f"node.{pair}" in weights:
        row = int(np.searchsorted(model.vectors_.projected_nodes[pair], parent))
        own = weights[f"node.{pair}"][row]
        if model.vectors_.kind == "node":
            return [own.reshape(a, b)]
        into, out = own[: RANK * a].reshape(RANK, a), own[RANK * a :].reshape(RANK, b)
        found.append(into.T @ out)
    return found


def loss_by_formula(model, weights, X, above, rows):
    """The loss of the docs, node by node and example by example, in plain torch and float64."""
    params, nodes, layout = model.params_, model.nodes_, model.layout_
    geometry, neutral = params.geometry, GEOMETRIES[params.geometry].neutral_distance
    hidden = torch.from_numpy(model.encoder_.trunk.encode(X[rows])).double()
    children = {p: nodes.children[p].indices.tolist() for p in range(len(nodes))}
    scored = sorted({c for r in rows for p in above[r].indices.tolist() for c in children[p]})
    vectors, projected, mean_squares = {}, {}, {}
    for node in scored:  # parents come before their children
        space, parent = int(layout.space[node]), int(nodes.main_parent[node])
        vector = weights[f"offset.{space}"][int(layout.row[node])]
        if parent > 0:
            pair = (int(layout.space[parent]), space)
            parts = matrices_of(model, weights, parent, pair)
            projected[node] = vectors[parent] @ sum(parts)
            vector = vector + projected[node]
            for number, part in enumerate(parts):
                shared = number == 0 and params.projections != "node"
                key = (pair, number), "level" if shared else parent
                mean_squares.setdefault(key[0], {})[key[1]] = (part**2).mean()
        vectors[node] = normalised(vector, geometry)
    total = torch.zeros((), dtype=torch.float64)
    for place, row in enumerate(rows):
        of_example = set(above[row].indices.tolist())
        for node in scored:
            if int(nodes.main_parent[node]) not in of_example:
                continue
            space = int(layout.space[node])
            z = normalised(hidden[place] @ weights[f"head.{space}"], geometry)
            if geometry == "euclidean":
                similarity = z @ vectors[node]
            else:
                similarity = neutral - ball_distance(z, vectors[node])
            logit = weights["scale"][space] * similarity + weights["bias"][node]
            sign = 1 if node in of_example else -1
            bce = torch.nn.functional.softplus(-sign * logit)
            total = total + params.prediction * params.level_weight**space * bce / len(rows)
    away = [
        1 - torch.cosine_similarity(vectors[node], wanted, dim=0)
        if geometry == "euclidean"
        else ball_distance(vectors[node], normalised(wanted, geometry))
        for node, wanted in projected.items()
    ]
    total = total + params.consistency * sum(away) / len(away)
    squares = sum(sum(each.values()) / len(each) for each in mean_squares.values())
    rows_of = [weights[f"offset.{layout.space[n]}"][int(layout.row[n])] for n in scored]
    lengths = sum(row @ row for row in rows_of) / len(scored)
    total = total + params.regularisation * (squares + lengths)
    for space in {int(layout.space[node]) for node in scored}:
        here = torch.stack([vectors[n] for n in scored if layout.space[n] == space])
        columns = [(here[:, j] ** 2).mean().sqrt() for j in range(here.shape[1])]
        total = total + params.dimensionality * sum(columns)
    return total


@pytest.mark.parametrize("geometry", list(GEOMETRIES))
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_gradients_are_those_of_the_formula(kind, geometry):
    model, X, above = fitted(projections=kind, geometry=geometry, level_weight=0.7)
    rows = np.array([4, 0, 11, 7])
    found = TreeObjective(model, X, above)(Batch(rows, np.random.default_rng(0)))
    for tensor in (model.bias_, model.scale_, *model.encoder_.heads):
        tensor.grad = None
    for matrix in model.vectors_.level_projections.values():
        matrix.grad = None
    found.backward()
    weights = copies(model)
    wanted = loss_by_formula(model, weights, X, above, rows)
    wanted.backward()
    assert float(found.detach()) == pytest.approx(float(wanted.detach()), rel=1e-5)
    for name, gradient in gradients(model).items():
        expected = (
            torch.zeros_like(weights[name]) if weights[name].grad is None else weights[name].grad
        )
        got = torch.zeros_like(weights[name]).float() if gradient is None else gradient
        np.testing.assert_allclose(got, expected, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("geometry", list(GEOMETRIES))
@pytest.mark.parametrize("kind", KINDS)
def test_regularisation_makes_the_projections_of_every_kind_smaller(kind, geometry):
    """Its gradient alone reaches all matrices: those of nodes, of levels, and low-rank ones."""
    sizes = []
    for weight in (0.0, 50.0):
        model, _, _ = fitted(
            projections=kind, geometry=geometry, regularisation=weight, lr=0.1, epochs=5
        )
        vectors = model.vectors_
        tables = [table.weight for table in vectors.node_projections.values()]
        levels = [one.detach().numpy() for one in vectors.level_projections.values()]
        if kind == "low-rank":  # a product can only be small if its factors are
            (a, b), table = next(iter(vectors.node_projections.items()))
            split = RANK * model.layout_.dims[a]
            tables = [
                table.weight[:, :split].reshape(-1, RANK, model.layout_.dims[a]).transpose(0, 2, 1)
                @ table.weight[:, split:].reshape(-1, RANK, model.layout_.dims[b])
            ]
        sizes.append([np.sqrt(np.mean(part**2)) for part in tables + levels])
    for free, held in zip(*sizes, strict=True):
        assert held < 0.75 * free


# --- the penalty on dimensions -------------------------------------------------------------------


def test_the_penalty_on_dimensions_leaves_few_of_them_and_the_ranking_stays_right():
    found = {}
    for weight in (0.0, 1.0):
        model, X, above = fitted(
            dimensionality=weight, consistency=0.0, regularisation=0.0, lr=0.03, epochs=25,
            dim=24, top_dim=12, width=12, linear_tree=False,
        )  # fmt: skip
        columns = [np.sqrt((v**2).mean(axis=0)) for v in model.vectors_.final()]
        unused = [int((column < 0.01).sum()) for column in columns]
        assert model.metadata()["tree"]["dimensions"] == [len(column) for column in columns]
        first = model.predict(X, 1).labels[:, 0]
        right = np.mean([above[r, int(model.blend_.index.node_of[first[r]])] for r in range(40)])
        found[weight] = unused, model.metadata()["tree"]["effective dimensions"], right
    (none, wide, before), (many, narrow, after) = found[0.0], found[1.0]
    assert sum(none) == 0
    assert all(left < 0.5 * was for left, was in zip(narrow, wide, strict=True))
    assert all(gone >= 4 for gone in many)
    assert after >= before == 1.0


def test_effective_dimensions_are_known_for_known_columns():
    model, _, _ = fitted()
    index, layout = model.blend_.index, model.layout_
    flat = np.zeros_like(index.flat)
    for node in np.flatnonzero(layout.space == 1):
        flat[index.starts[node] + np.array([0, 3])] = 2.0  # two columns of one length
    for node in np.flatnonzero(layout.space == 2):
        flat[index.starts[node] : index.starts[node + 1]] = 1.0
    found = type(index)(**{**vars(index), "flat": flat}).effective_dimensions(layout)
    assert found == pytest.approx([0.0, 2.0, layout.dims[2]])


def test_the_loss_needs_a_weight_and_the_penalty_on_dimensions_is_one():
    X, Y, taxonomy = products()
    only = {"prediction": 0.0, "consistency": 0.0, "regularisation": 0.0, "epochs": 1}
    with pytest.raises(ParameterError, match="dimensionality are all 0"):
        TreeSpace(**only).fit(X, Y)
    TreeSpace(**only, dimensionality=0.1, validation=0.0).fit(X, Y, taxonomy=taxonomy)


# --- weights of levels ---------------------------------------------------------------------------


def losses(**changes):
    model, X, above = fitted(consistency=0.0, regularisation=0.0, dimensionality=0.0, lr=0.0)
    for name, value in changes.items():
        setattr(model.params_, name, value)
    batch = Batch(np.arange(12), np.random.default_rng(0))
    return float(TreeObjective(model, X, above)(batch).detach())


def test_levels_have_the_weights_of_a_list_and_the_last_repeats():
    """There are spaces of levels 0 and 1, the last also of level 2, and one of the brands."""
    top, below, brands = losses(level_weights=(1, 0)), losses(level_weights=(0, 1, 0)), 0.0
    brands = losses(level_weights=(0, 0, 1))
    assert min(top, below, brands) > 0.1
    assert losses(level_weights=(2, 3, 0.5)) == pytest.approx(
        2 * top + 3 * below + 0.5 * brands, rel=1e-5
    )
    assert losses(level_weights=(2, 3)) == pytest.approx(2 * top + 3 * (below + brands), rel=1e-5)
    assert losses(level_weight=0.5) == pytest.approx(losses(level_weights=(1, 0.5, 0.25)), rel=1e-6)


def test_a_list_of_weights_is_read_from_text_and_kept():
    assert TreeSpace.parse_parameters({"level_weights": "1,0.5"}) == {"level_weights": (1.0, 0.5)}
    with pytest.raises(ParameterError, match="level_weights"):
        TreeSpace(level_weights=(1.0, -0.5)).check_parameters()
    model, _, _ = fitted(level_weights=[1, 0.5])
    assert model.params_.level_weights == (1, 0.5)
