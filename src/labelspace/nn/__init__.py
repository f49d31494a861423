"""Networks: layers, losses, optimisers and the training loop."""

import os

# MKL, which multiplies torch's matrices, then rounds alike on any number of threads, at no cost in
# time. It reads this once, at its first product.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
