"""HierarchicalXC with the faults of its authors' public code, for `hierarchicalxc-authors-code`.

The code (github.com/vishwakftw/extreme-classification) trains two classifiers at each node. Its
training examples are, one after another: those with labels of the first child alone (l_0), of the
second alone (l_1), and of both. Three things go wrong:

- the targets of the second and third part are written to rows l_0 to l_1 and from l_1 on, where l_0
  to l_0 + l_1 and from l_0 + l_1 on are meant;
- an example is listed once for each of its labels, and the functions that compare the two lists
  are called as if each were listed once: an example with two labels of one child then counts as
  one with labels of both;
- the examples' codes are computed in a random order, and their labels are not.

Each can be switched on and off here. The classifiers are linear, and the tree is that of
`HierarchicalXC(preset="paper")`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix, vstack

from labelspace.classifiers.dual_descent import Loss, Tasks, solve
from labelspace.classifiers.tree_networks import NO_NETWORKS
from labelspace.classifiers.tree_search import Classifiers
from labelspace.classifiers.tree_weights import lay_out
from labelspace.labels.tree import LabelTree
from labelspace.methods.hierarchicalxc.method import HierarchicalXC
from labelspace.methods.hierarchicalxc.presets import PAPER
from labelspace.methods.parameters import choice, flag
from labelspace.methods.presets import chosen, preset

if TYPE_CHECKING:
    from labelspace.runs.checkpoint_files import Blocks

_AUTHORS = PAPER.but(
    "As in the authors' code, with all of its faults.",
    slices=chosen("published", "the authors' code"),
    repeated=chosen(True, "the authors' code"),
    shuffled=chosen(True, "the authors' code"),
)


class AuthorsTree(HierarchicalXC):
    """HierarchicalXC with the faults of its authors' public code.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.tile(np.eye(4), (3, 1))
    >>> model = AuthorsTree(preset="paper", inputs="raw", shuffled=False).fit(X, X)
    >>> len(model.predict(X, 4))
    12
    """

    name: ClassVar[str] = "hierarchicalxc-authors-code"
    summary: ClassVar[str] = "hierarchicalxc with the faults of its authors' code"

    preset: str | None = preset(paper=_AUTHORS)
    slices: str = choice(
        "Rows to which the targets of a node are written.",
        "published",
        "intended",
        default="published",
    )
    repeated: bool = flag("List an example once per label.", default=True)
    shuffled: bool = flag("Train on inputs in another order than that of labels.", default=True)

    def _classifiers(
        self,
        inputs: csr_matrix,
        Y: csr_matrix,
        tree: LabelTree,
        loss: Loss,
        seed: int,
        progress: Callable[[int], None],
        blocks: Callable[[int], Blocks | None],
    ) -> Classifiers:
        del blocks
        if self.params_.shuffled:
            inputs = inputs[np.random.default_rng([seed, 1]).permutation(inputs.shape[0])]
        tasks = node_tasks(
            Y, tree, published=self.params_.slices == "published", repeated=self.params_.repeated
        )
        C = self.params_.C[loss != "logistic"]
        found = solve(
            *(inputs, tasks),
            loss=loss, C=C, prune=self.params_.prune, seed=seed, progress=progress,
        )  # fmt: skip
        root = csr_matrix((1, found.shape[1]), dtype=np.float32)
        linear = lay_out(tree, csr_matrix(vstack([root, found], "csr")))
        return Classifiers.of(tree, linear, NO_NETWORKS)


def node_tasks(Y: csr_matrix, tree: LabelTree, *, published: bool, repeated: bool) -> Tasks:
    """Return the training examples and targets of each node's classifiers but the root's.

    Parameters
    ----------
    Y : csr_matrix
    tree : LabelTree
        Binary.
    published : bool
        Write targets to the rows of the authors' code, else to those that are meant.
    repeated : bool
        List an example once per label of a child, as the authors' code does.
    """
    columns = csc_matrix(Y)
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for node in np.flatnonzero(~tree.is_leaf).tolist():
        pair = [_examples(columns, tree, child, repeated) for child in tree.children(node)]
        # As in the authors' code: numpy is to expect no repetition, and takes it for a shared row.
        one, other = pair
        parts_of = [
            np.setdiff1d(one, other, assume_unique=True),
            np.setdiff1d(other, one, assume_unique=True),
            np.intersect1d(one, other, assume_unique=True),
        ]
        first, second = len(parts_of[0]), len(parts_of[1])
        end = second if published else first + second
        targets = np.zeros((2, sum(map(len, parts_of))), np.bool_)
        targets[0, :first] = True
        targets[1, first:end] = True
        targets[:, end:] = True
        parts += [(np.concatenate(parts_of), target) for target in targets]
    # Nodes are numbered level by level, so the children of inner nodes are nodes 1, 2, ...
    indptr = np.concatenate([[0], np.cumsum([len(rows) for rows, _ in parts])])
    rows, positive = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Tasks(indptr, rows, positive)


def _examples(columns: csc_matrix, tree: LabelTree, node: int, repeated: bool) -> np.ndarray:
    """Return the examples with a label at or below a node."""
    start, stop = tree.label_ranges[node]
    found = [columns[:, label].indices for label in tree.label_order[start:stop]]
    rows = np.concatenate(found)
    return rows if repeated else np.unique(rows)
