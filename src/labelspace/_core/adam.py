"""The one compiled loop of Adam (Kingma & Ba 2015), for a vector of weights."""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop_part

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # as in the paper


@loop_part(fastmath={"contract"})
def adam_update(weight, gradient, moment1, moment2, decay, rate, step):  # type: ignore[no-untyped-def]
    """Update weights and moments in place; `step` counts the updates, this one included.

    `decay`, the weight of an L2 penalty, is None or a float32; a branch is compiled for each, since
    a decay of zero would round differently.
    """
    # Bias correction folded into the rate and epsilon, as in section 2 of the paper.
    left_1, left_2 = 1.0 - BETA_1**step, np.sqrt(1.0 - BETA_2**step)
    stride, epsilon = np.float32(rate * left_2 / left_1), np.float32(EPSILON * left_2)
    keep_1, keep_2 = np.float32(BETA_1), np.float32(BETA_2)
    add_1, add_2 = np.float32(1.0 - BETA_1), np.float32(1.0 - BETA_2)
    for j in range(len(weight)):
        if decay is None:
            g = gradient[j]
        else:
            g = gradient[j] + decay * weight[j]
        moment1[j] = keep_1 * moment1[j] + add_1 * g
        moment2[j] = keep_2 * moment2[j] + add_2 * g * g
        weight[j] -= stride * moment1[j] / (np.sqrt(moment2[j]) + epsilon)
