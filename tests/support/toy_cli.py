"""`labelspace` with the toy method registered, for tests that stop a training process.

STOP_AT="15 batch 7" sends signal 15 after the seventh batch: see `stopping_bar`.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from labelspace.cli import main
from labelspace.methods.registry import register
from support.toy import Toy

register(Toy)
if "STOP_AT" in os.environ:
    from labelspace.cli import train
    from support.stopping import stopping_bar

    how, event, count = os.environ["STOP_AT"].split()
    train.ProgressBar = stopping_bar(int(how), event, int(count))
main()
