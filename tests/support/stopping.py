"""A progress bar of `labelspace train` that sends its own process a signal at a chosen moment."""

from __future__ import annotations

import os
import threading

from labelspace.cli import signals
from labelspace.cli.output import ProgressBar


def stopping_bar(how, event, count=1, part=""):
    """Return a ProgressBar class that sends `how` at the count-th event of a part of the run.

    event  "start", "batch", "end" or "work"
    """
    lock, arrived = threading.Lock(), threading.Event()
    left = [count]
    terminate = signals._terminate

    def arrive(signum, frame):
        arrived.set()
        terminate(signum, frame)

    signals._terminate = arrive

    def tick(what, name):
        with lock:
            if what != event or part not in name:
                return
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), how)
            if left[0] <= 0 and threading.current_thread() is not threading.main_thread():
                assert arrived.wait(30)  # the main thread handles the signal when it gets to it

    class Stopping(ProgressBar):
        def within(self, inner):
            return Stopping(self.progress, f"{self.name}{inner}")

        def on_start(self, run):
            super().on_start(run)
            tick("start", self.name)

        def on_batch(self, run):
            super().on_batch(run)
            tick("batch", self.name)

        def on_end(self, run):
            super().on_end(run)
            tick("end", self.name)

        def on_work(self, what, done, total):
            super().on_work(what, done, total)
            tick("work", self.name)

    return Stopping
