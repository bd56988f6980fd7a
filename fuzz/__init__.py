"""Inputs that nobody should send: valid files of every kind, spoiled; `python -m fuzz` counts what goes wrong."""

import os

# threads of the linear algebra that wait for each other would count as processor time of the input
os.environ.setdefault("OMP_NUM_THREADS", "1")
