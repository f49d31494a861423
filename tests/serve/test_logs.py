"""Lines of the log are written in their order, those of one turn of the event loop at once."""

from __future__ import annotations

import asyncio
import io
import logging
import threading
from contextlib import redirect_stderr

import support.served  # noqa: F401  # skips where the extra is not installed
from labelspace.serve.logs import logged_to_stderr

logger = logging.getLogger("labelspace.serve.access")


class Written(io.StringIO):
    """Keeps each write by itself."""

    def __init__(self):
        super().__init__()
        self.parts = []

    def write(self, text):
        self.parts.append([line.split(" ", 1)[1] for line in text.splitlines()])
        return len(text)


def test_lines_of_one_turn_are_one_write():
    stream = Written()
    written = stream.parts

    async def turns():
        for turn in ("a", "b"):
            logger.info("%s 1", turn)
            logger.info("%s 2", turn)
            assert len(written) == (turn == "b")
            await asyncio.sleep(0)

    with redirect_stderr(stream), logged_to_stderr():
        asyncio.run(turns())
    assert written == [["a 1", "a 2"], ["b 1", "b 2"]]


def test_errors_and_other_threads_do_not_wait_and_keep_the_order():
    stream = Written()
    written = stream.parts

    async def turn():
        logger.info("first")
        logger.error("second")
        assert written == [["first", "error: second"]]
        logger.info("third")
        other = threading.Thread(target=logger.info, args=("fourth",))
        other.start()
        other.join()
        assert written[1:] == [["third", "fourth"]]
        logger.info("last")

    with redirect_stderr(stream), logged_to_stderr():
        asyncio.run(turn())
    assert [line for part in written for line in part][-1] == "last"
