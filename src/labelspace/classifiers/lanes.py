"""One step of dual coordinate descent for LANES classifiers at once, as vector instructions.

Classifiers against all examples read the same rows of X. Those of LANES labels are trained side by
side: their weights of a feature are adjacent, so that an entry of X is read once for all of them.
numba does not make vector instructions of such short loops, hence LLVM's instructions by hand.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16  # floats of a cache line

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_SIGNS = ir.VectorType(_I8, LANES)
_CONTRACT = ("contract",)  # a product and a sum may be one instruction


@intrinsic
def lane_step(  # type: ignore[no-untyped-def]
    typingctx,  # noqa: ARG001
    indices,
    data,
    first,
    last,
    weights,
    signs,
    alpha,
    numbers,
    scalars,
):
    """Visit one example: update the dual variables and the weights of all lanes.

    Parameters
    ----------
    indices, data : arrays of uint32 and float32
        Entries of X; those of the example are from `first` to `last`.
    weights : array of shape (features + 1, LANES), float32
        The biases are in the last row.
    signs, alpha : arrays of shape (LANES,), int8 and float32
        Labels and dual variables of the example.
    numbers : array of shape (4, LANES), float32
        Per lane the highest and the lowest projected gradient so far, which are updated; the
        gradient above which a dual variable of 0 is left aside; and 1, or 0 if the lane is done.
    scalars : array of shape (3,), float32
        1 / (2 C), the reciprocal of the example's squared length plus that, and the projected
        gradient up to which a lane need not move.

    Returns
    -------
    bool
        False if the example can be left aside: it is far inside the margin of all lanes.
    """
    arrays = (indices, data, first, last, weights, signs, alpha, numbers, scalars)
    return types.boolean(*arrays), _lane_step


def _lane_step(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
    def pointer(place: int) -> ir.Value:
        kind, value = signature.args[place], arguments[place]
        return context.make_array(kind)(context, builder, value).data

    indices, data, weights, signs, alpha, numbers, scalars = map(pointer, (0, 1, 4, 5, 6, 7, 8))
    first, last = arguments[2], arguments[3]
    n_rows = builder.extract_value(
        context.make_array(signature.args[4])(context, builder, arguments[4]).shape, 0
    )
    step = _Vectors(builder)
    bias = step.at(weights, builder.sub(n_rows, _I64(1)))

    def row_of(cell: ir.Value) -> tuple[ir.Value, ir.Value]:
        feature = builder.zext(builder.load(builder.gep(indices, [cell])), _I64)
        value = step.all(builder.load(builder.gep(data, [cell])))
        return step.at(weights, feature), value

    # Two sums that do not depend on one another: the next product need not wait for the last sum.
    sums = [cgutils.alloca_once(builder, _VECTOR) for _ in range(2)]
    builder.store(step.load(bias), sums[0])
    builder.store(step.all(step.number(0.0)), sums[1])
    middle = builder.add(first, builder.ashr(builder.sub(last, first), _I64(1)))
    half = builder.sub(middle, first)
    with cgutils.for_range_slice(builder, first, middle, _I64(1), _I64) as (cell, _):
        for total, place in zip(sums, (cell, builder.add(cell, half)), strict=True):
            row, value = row_of(place)
            builder.store(step.fma(value, step.load(row), builder.load(total)), total)
    rest = builder.add(middle, half)
    with cgutils.for_range_slice(builder, rest, last, _I64(1), _I64) as (cell, _):
        row, value = row_of(cell)
        builder.store(step.fma(value, step.load(row), builder.load(sums[0])), sums[0])
    margin = builder.fadd(builder.load(sums[0]), builder.load(sums[1]))

    sign = builder.sitofp(step.load(signs, _SIGNS), _VECTOR)
    zero, one = step.all(step.number(0.0)), step.all(step.number(1.0))
    ridge, inverse, least = (
        step.all(builder.load(builder.gep(scalars, [_I64(place)]))) for place in range(3)
    )
    highest, lowest, limit, is_on = (step.at(numbers, _I64(place)) for place in range(4))
    old, on = step.load(alpha), builder.fcmp_ordered("!=", step.load(is_on), zero)
    gradient = step.fma(sign, margin, builder.fsub(builder.fmul(old, ridge), one))
    at_zero = builder.fcmp_ordered("==", old, zero)
    below = builder.fcmp_ordered("<", gradient, zero)
    inside = builder.and_(at_zero, builder.not_(below))
    projected = builder.select(inside, zero, gradient)
    projected = builder.select(on, projected, zero)
    for place, comparison in ((highest, ">"), (lowest, "<")):
        so_far = step.load(place)
        beyond = builder.fcmp_ordered(comparison, projected, so_far)
        step.store(builder.select(beyond, projected, so_far), place)
    aside = builder.and_(at_zero, builder.fcmp_ordered(">", gradient, step.load(limit)))
    kept = step.any(builder.and_(on, builder.not_(aside)))

    size = builder.select(below, builder.fsub(zero, projected), projected)
    with builder.if_then(step.any(builder.fcmp_ordered(">", size, least))):
        fresh = builder.fsub(old, builder.fmul(gradient, inverse))
        fresh = builder.select(builder.fcmp_ordered(">", fresh, zero), fresh, zero)
        fresh = builder.select(on, fresh, old)
        step.store(fresh, alpha)
        move = builder.fmul(builder.fsub(fresh, old), sign)
        step.store(builder.fadd(step.load(bias), move), bias)
        with cgutils.for_range_slice(builder, first, last, _I64(1), _I64) as (cell, _):
            row, value = row_of(cell)
            step.store(step.fma(value, move, step.load(row)), row)
    return kept


class _Vectors:
    """Vectors of LANES floats in memory and in registers."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.builder = builder

    def number(self, value: float) -> ir.Value:
        return ir.Constant(ir.FloatType(), value)

    def all(self, value: ir.Value) -> ir.Value:
        """Return a vector that has the value in all lanes."""
        none, builder = ir.Constant(_VECTOR, ir.Undefined), self.builder
        first = builder.insert_element(none, value, _I32(0))
        zeros = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
        return builder.shuffle_vector(first, none, zeros)

    def at(self, array: ir.Value, row: ir.Value) -> ir.Value:
        """Return where a row of an array of shape (n, LANES) begins."""
        return self.builder.gep(array, [self.builder.mul(row, _I64(LANES))])

    def load(self, place: ir.Value, kind: ir.Type = _VECTOR) -> ir.Value:
        loaded = self.builder.load(self.builder.bitcast(place, kind.as_pointer()))
        loaded.align = 1 if kind is _SIGNS else 4  # as numpy aligns arrays
        return loaded

    def store(self, vector: ir.Value, place: ir.Value) -> None:
        stored = self.builder.store(vector, self.builder.bitcast(place, _VECTOR.as_pointer()))
        stored.align = 4

    def fma(self, one: ir.Value, other: ir.Value, added: ir.Value) -> ir.Value:
        product = self.builder.fmul(one, other, flags=_CONTRACT)
        return self.builder.fadd(product, added, flags=_CONTRACT)

    def any(self, flags: ir.Value) -> ir.Value:
        bits = self.builder.bitcast(flags, ir.IntType(LANES))
        return self.builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(LANES), 0))
