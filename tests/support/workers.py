"""Workers of one training as threads of a process, connected by gloo."""

from __future__ import annotations

import threading
from datetime import timedelta

import torch.distributed as dist

from labelspace.nn.exchange import GroupExchange, use


def together(n_workers, run, seconds=60):
    """Return what ``run(exchange)`` returns in each of the workers; raise their first error."""
    store = dist.HashStore()
    found, errors = [None] * n_workers, []

    def work(rank):
        try:
            group = dist.ProcessGroupGloo(store, rank, n_workers, timedelta(seconds=seconds))
            with use(GroupExchange(group)) as exchange:
                found[rank] = run(exchange)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(n_workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found
