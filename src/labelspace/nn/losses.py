"""Losses of a batch over its candidate labels, each with its gradient derived by hand.

All take logits (examples, candidates) and the positives among them as index pairs `rows`,
`columns`, each pair once and in any order; they return a sum over candidates averaged over
examples. Examples without positives are allowed, and so are batches without candidates, whose loss
is 0.

Why by hand: at 512 x 20,000 most of the time is spent on new memory, so each loss fills one new
matrix, which becomes the gradient; autograd fills three or four.

Gradients and values do not depend on the number of threads: sums are over rows first, and functions
that torch approximates go through `in_pieces`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import softplus

THREADED = 1 << 15  # cells: torch runs fewer on one thread
STRIDE = 32  # cells per iteration of torch's loops, at most
BLOCK_CELLS = 1 << 18  # cells of temporary memory that stay in a core's cache


def margin_loss(
    logits: Tensor, rows: Tensor, columns: Tensor, sampled: Tensor, margin: float
) -> Tensor:
    """Return the hinge loss of all negatives against a sampled positive (Guo et al. 2019, eq. 1).

        1/B sum_i sum_{c not positive} [s_ic - s_i,sampled(i) + margin]_+

    Parameters
    ----------
    logits : Tensor of shape (examples, candidates)
    rows, columns : Tensors of shape (pairs,)
        The positives.
    sampled : Tensor of shape (examples,)
        Column of one positive of each example, -1 where it has none.
    margin : float

    Returns
    -------
    Tensor
        A scalar.

    Examples
    --------
    >>> import torch
    >>> logits = torch.tensor([[2.0, 1.5, 0.0]])
    >>> zero = torch.tensor([0])
    >>> margin_loss(logits, zero, zero, sampled=zero, margin=1.0)
    tensor(0.5000)
    """
    if logits.shape[1] == 0:
        return logits.sum()
    slack = logits.detach() - (_sampled_scores(logits, sampled) - margin)
    slack[rows, columns] = 0.0
    slack.clamp_(min=0.0)
    value = slack.sum(1).sum() / len(slack)
    slope = slack.sign_().div_(len(slack))
    _pull_up(slope, sampled)
    return with_gradient(logits, value, slope)


def mined_margin_loss(
    logits: Tensor, rows: Tensor, columns: Tensor, sampled: Tensor, margin: float, hardest: int
) -> Tensor:
    """Return the margin loss over the `hardest` highest-scoring negatives of each example.

    Stochastic negative mining (Reddi et al. 2019). If `hardest` is the number of candidates, it is
    `margin_loss`; the other parameters are those of `margin_loss`.

    Examples
    --------
    >>> import torch
    >>> logits = torch.tensor([[2.0, 1.5, 1.25]])
    >>> zero = torch.tensor([0])
    >>> mined_margin_loss(logits, zero, zero, sampled=zero, margin=1.0, hardest=1)
    tensor(0.5000)
    """
    if logits.shape[1] == 0:
        return logits.sum()
    negatives = logits.detach().clone()
    negatives[rows, columns] = -math.inf
    top = negatives.topk(min(hardest, negatives.shape[1]), dim=1)
    slack = (top.values - (_sampled_scores(logits, sampled) - margin)).clamp_(min=0.0)
    value = slack.sum(1).sum() / len(slack)
    slope = negatives.zero_().scatter_(1, top.indices, slack.sign_().div_(len(slack)))
    _pull_up(slope, sampled)
    return with_gradient(logits, value, slope)


def softmax_loss(
    logits: Tensor,
    rows: Tensor,
    columns: Tensor,
    *,
    log_q: Tensor | None = None,
    weights: Tensor | None = None,
    exclude_positives: bool = False,
) -> Tensor:
    """Return the cross-entropy of a softmax over candidates, summed over an example's positives.

        1/B sum_i sum_{p positive} w_ip (log sum_c exp s_ic - s_ip)

    Parameters
    ----------
    logits : Tensor of shape (examples, candidates)
    rows, columns : Tensors of shape (pairs,)
        The positives.
    log_q : Tensor of shape (candidates,), optional
        Logarithm of the probability of each to be among the candidates; it is subtracted from
        the logits, so that a sampled softmax estimates the full one.
    weights : Tensor of shape (pairs,), optional
        w of each positive, 1 if None.
    exclude_positives : bool
        For each positive, the sum over c is over it and the negatives alone, without the example's
        other positives.

    Returns
    -------
    Tensor
        A scalar.

    Examples
    --------
    >>> import torch
    >>> softmax_loss(torch.zeros(1, 4), torch.tensor([0]), torch.tensor([2]))  # log 4
    tensor(1.3863)
    """
    if logits.shape[1] == 0:
        return logits.sum()
    slope = _copy(logits)
    if log_q is not None:
        slope.sub_(log_q)
    weights = torch.ones_like(rows, dtype=slope.dtype) if weights is None else weights
    positives = slope[rows, columns]
    if exclude_positives:
        slope[rows, columns] = -math.inf
    # The bound keeps -inf - -inf out of rows that have no negatives.
    top = slope.amax(1, keepdim=True).clamp_(min=torch.finfo(slope.dtype).min)
    total = in_pieces(torch.exp_, slope.sub_(top)).sum(1)
    gap = (total.log() + top[:, 0])[rows] - positives
    if exclude_positives:  # log(exp n + exp p) - p, where n is the log-sum of the negatives
        value, pull = softplus_of(gap), weights * in_pieces(torch.sigmoid_, gap.clone())
    else:
        value, pull = gap, weights
    push = torch.zeros_like(total).index_add_(0, rows, pull)
    slope.mul_((push / (total.clamp_(min=torch.finfo(slope.dtype).tiny) * len(slope)))[:, None])
    slope[rows, columns] -= pull / len(slope)
    return with_gradient(logits, (weights * value).sum() / len(slope), slope)


def binary_loss(
    logits: Tensor,
    rows: Tensor,
    columns: Tensor,
    *,
    weights: Tensor | None = None,
    negative_weights: Tensor | None = None,
) -> Tensor:
    """Return the binary cross-entropy summed over all candidates.

        1/B sum_i (sum_{p positive} w_ip log(1 + e^-s_ip) + sum_{n negative} u_n log(1 + e^s_in))

    Parameters
    ----------
    logits : Tensor of shape (examples, candidates)
    rows, columns : Tensors of shape (pairs,)
        The positives.
    weights : Tensor of shape (pairs,), optional
        w of each positive, 1 if None.
    negative_weights : Tensor of shape (candidates,), optional
        u, 1 if None; with one over the inclusion probability, the loss over sampled negatives
        estimates that over all labels.

    Returns
    -------
    Tensor
        A scalar.

    Examples
    --------
    >>> import torch
    >>> binary_loss(torch.zeros(1, 4), torch.tensor([0]), torch.tensor([2]))  # 4 log 2
    tensor(2.7726)
    """
    if logits.shape[1] == 0:
        return logits.sum()
    slope = _copy(logits)
    weights = torch.ones_like(rows, dtype=slope.dtype) if weights is None else weights
    positives = slope[rows, columns]
    slope[rows, columns] = -math.inf  # softplus and sigmoid are 0: positives are no negatives
    value = (weights * softplus_of(-positives)).sum()
    height = max(1, BLOCK_CELLS // slope.shape[1])
    for start in range(0, len(slope), height):
        block = slope[start : start + height]
        losses = softplus_of(block)
        if negative_weights is not None:
            losses = losses @ negative_weights[:, None]
        value += losses.sum(1).sum()
        in_pieces(torch.sigmoid_, block).div_(len(slope))
    if negative_weights is not None:
        slope.mul_(negative_weights)
    slope[rows, columns] = -weights * in_pieces(torch.sigmoid_, -positives) / len(slope)
    return with_gradient(logits, value / len(slope), slope)


def with_gradient(inputs: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return `value` as a function of `inputs` with a gradient that is already computed."""
    return cast(Tensor, _WithGradient.apply(inputs, value, gradient))  # type: ignore[no-untyped-call]  # torch's `apply` has no types


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, value: Tensor, gradient: Tensor) -> Tensor:  # noqa: ARG004
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        # A loss that is not scaled further, the usual case, needs no second matrix.
        return (gradient if outer == 1.0 else gradient * outer), None, None


def in_pieces(function: Callable[[Tensor], Tensor], cells: Tensor) -> Tensor:
    """Apply a function that works in place to contiguous cells; return them.

    torch approximates exp and similar functions differently in the last cells of each thread's
    part if they do not fill a stride. Here all parts but the last consist of whole strides, so that
    bits do not depend on the number of threads.
    """
    flat, threads = cells.detach().view(-1), torch.get_num_threads()
    if threads == 1:
        function(flat)
    elif len(flat) >= 2 * threads * THREADED:  # enough for every thread
        even = len(flat) - len(flat) % (threads * STRIDE)
        function(flat[:even])
        function(flat[even:])
    else:
        for start in range(0, len(flat), THREADED):
            function(flat[start : start + THREADED])
    return cells


def softplus_of(values: Tensor) -> Tensor:
    """Return log(1 + exp(values)) without a gradient."""
    return in_pieces(lambda part: part.copy_(softplus(part, threshold=40.0)), _copy(values))


def sigmoid_of(values: Tensor) -> Tensor:
    """Return the logistic function of the values, with its gradient."""
    return cast(Tensor, _Sigmoid.apply(values))  # type: ignore[no-untyped-call]  # torch's `apply` has no types


class _Sigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        found = in_pieces(torch.sigmoid_, _copy(values))
        ctx.save_for_backward(found)
        return found

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> Tensor:
        (found,) = ctx.saved_tensors
        return cast(Tensor, outer * found * (1.0 - found))


def _copy(values: Tensor) -> Tensor:
    return values.detach().clone(memory_format=torch.contiguous_format)


def _sampled_scores(logits: Tensor, sampled: Tensor) -> Tensor:
    """Return scores (examples, 1); infinite without a positive, so that no slack is above 0."""
    scores = logits.detach().gather(1, sampled.clamp(min=0)[:, None])
    return scores.masked_fill_(sampled[:, None] < 0, math.inf)


def _pull_up(slope: Tensor, sampled: Tensor) -> None:
    """Set the slope of each sampled positive to minus the sum of its negatives' slopes."""
    # Without a positive, the column is -1, the last one, and the sum is 0.
    slope[torch.arange(len(slope), device=slope.device), sampled] -= slope.sum(1)
