"""Linear layers in 8-bit integers: exact sums, and rows that do not depend on each other."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from labelspace.features.int8_layers import (  # noqa: E402
    Int8Linear,
    float_product,
    integer_product,
    quantised,
    with_int8_layers,
)


def test_products_are_exact_for_the_largest_sums():
    rng = np.random.default_rng(0)
    one = rng.integers(-127, 128, (7, 3000)).astype(np.int8)
    other = rng.integers(-127, 128, (3000, 5)).astype(np.int8)
    one[0], other[:, 0] = 127, 127  # a sum beyond 2 ** 24
    one[1], other[:, 1] = -127, 127
    expected = one.astype(np.int64) @ other.astype(np.int64)
    codes, weights = torch.from_numpy(one), torch.from_numpy(other)
    np.testing.assert_array_equal(float_product(codes, weights.float()).numpy(), expected)
    product = integer_product()
    given = weights.float() if product is float_product else weights
    np.testing.assert_array_equal(product(codes, given).numpy(), expected)


def test_codes_are_rounded_to_the_nearest_and_halves_to_even():
    rows = torch.tensor([[127, 0.5, 1.5, -0.5, -2.5, 2.4999, -126.6], [-254, 1, 3, 5, -1, 0, 253]])
    codes, scales = quantised(rows)
    assert scales.tolist() == [1, 2]
    assert codes.tolist() == [[127, 0, 2, 0, -2, 2, -127], [-127, 0, 2, 2, 0, 0, 126]]


def test_codes_are_those_of_the_formula_for_rows_of_any_size_and_layout():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 77)) * np.logspace(-40, 36, 40)[:, None]
    given = torch.from_numpy(rows.astype(np.float32)).t().contiguous().t()
    assert not given.is_contiguous()
    codes, scales = quantised(given)
    largest = np.abs(given.numpy()).max(axis=1).clip(min=1e-12)
    np.testing.assert_array_equal(scales, largest / np.float32(127))
    np.testing.assert_array_equal(codes, np.rint(given.numpy() / scales.numpy()[:, None]))


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_close_to_that_in_floats(bias):
    torch.manual_seed(0)
    layer = torch.nn.Linear(96, 40, bias=bias)
    x = torch.randn(3, 50, 96) * torch.logspace(-6, 6, 50)[:, None]  # rows of many lengths
    with torch.inference_mode():
        exact, found = layer(x), Int8Linear(layer)(x)
    assert found.shape == exact.shape
    without = exact - layer.bias if bias else exact
    error = (found - exact).norm(dim=-1) / without.norm(dim=-1)
    assert error.max() < 0.03


def test_a_row_of_zeros_is_the_bias():
    layer = torch.nn.Linear(8, 4)
    with torch.inference_mode():
        assert torch.equal(Int8Linear(layer)(torch.zeros(2, 8)), layer.bias.expand(2, 4))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_has_the_same_bits_alone_and_among_rows_of_any_size(threads):
    torch.manual_seed(0)
    layer = Int8Linear(torch.nn.Linear(384, 192))
    x = torch.randn(100, 384)
    x[50:] *= 1e4
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            together = layer(x)
            assert all(torch.equal(layer(x[i : i + 1])[0], together[i]) for i in range(100))
    finally:
        torch.set_num_threads(before)


def test_both_products_give_a_layer_the_same_bits(monkeypatch):
    layer = torch.nn.Linear(1500, 16)
    x = torch.randn(9, 1500)
    with torch.inference_mode():
        first = Int8Linear(layer)(x)
        monkeypatch.setattr(
            "labelspace.features.int8_layers.integer_product", lambda: float_product
        )
        assert torch.equal(Int8Linear(layer)(x), first)


def test_all_linear_layers_of_a_model_are_replaced():
    inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())
    model = with_int8_layers(torch.nn.Sequential(inner, torch.nn.Linear(4, 2)))
    kinds = [type(module) for module in model.modules()]
    assert torch.nn.Linear not in kinds
    assert kinds.count(Int8Linear) == 2
