"""Defaults of `dxml` that follow the data's shape; the docs say on which sets they were found."""

from __future__ import annotations

FEW_FEATURES, FEW_EXAMPLES = 1000, 10_000
ENOUGH_STEPS, FEWEST_PASSES, MOST_PASSES = 1000, 6, 30


def hidden_layers(given: tuple[int, ...] | None, n_features: int) -> tuple[int, ...]:
    """Few features need a layer to combine them; with many a linear map overfits less."""
    if given is not None:
        return given
    return (512,) if n_features < FEW_FEATURES else ()


def learners(given: int | None, n_examples: int) -> int:
    """Averages pay where examples are few, and are cheap there."""
    if given is not None:
        return given
    return 5 if n_examples < FEW_EXAMPLES else 1


def batch(given: int | None, n_examples: int) -> int:
    """A larger batch holds more neighbours to vote; with many examples the steps are worth more."""
    return given or (1024 if n_examples < FEW_EXAMPLES else 512)


def passes(given: int | None, batch_size: int | None, n_examples: int) -> int:
    """Small sets need many passes to get anywhere, large ones few."""
    steps = -(-n_examples // batch(batch_size, n_examples))
    return given or min(max(ENOUGH_STEPS // steps, FEWEST_PASSES), MOST_PASSES)
