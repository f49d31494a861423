"""Search over shards on a Ray cluster gives what one index gives."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.errors import InputError, ParameterError
from labelspace.search.exact import ExactIndex
from support.ray_cluster import add_node

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.xdist_group("ray")

from labelspace.engine.ray import RayEngine  # noqa: E402
from labelspace.search.sharded import ShardedIndex  # noqa: E402


def test_the_result_is_that_of_one_index_also_after_a_node_was_killed(ray_cluster):
    random = np.random.default_rng(0)
    vectors = random.standard_normal((1000, 16), np.float32)
    vectors[700] = vectors[20]  # equal scores in two shards
    queries = random.standard_normal((40, 16), np.float32)
    queries[0] = vectors[20] * 3
    expected = [ExactIndex(vectors).search(queries, k) for k in (7, 1200)]
    node = add_node(ray_cluster)
    with ShardedIndex(RayEngine(), vectors, 3) as index:
        for k, (labels, scores) in zip((7, 1200), expected, strict=True):
            found = index.search(queries, k)
            np.testing.assert_array_equal(found[0], labels)
            np.testing.assert_array_equal(found[1], scores)
        ray_cluster.remove_node(node, allow_graceful=False)  # SIGKILL
        again = index.search(queries, 7)
        np.testing.assert_array_equal(again[0], expected[0][0])
        np.testing.assert_array_equal(again[1], expected[0][1])
        with pytest.raises(InputError, match="dimension 3"):
            index.search([[1, 2, 3]], 1)
        with pytest.raises(ParameterError, match="k=0"):
            index.search(queries, 0)
    with pytest.raises(ParameterError, match="shards=0"):
        ShardedIndex(RayEngine(), vectors, 0)
