"""`labelspace` with the toy method registered, for tests that kill a training process."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from labelspace.cli import main
from labelspace.methods.registry import register
from support.toy import Toy

register(Toy)
main()
