"""Runs every benchmark, or those named: `python -m benchmarks foundations`."""

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks.clock import machine

names = sys.argv[1:] or [
    m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in ("__main__", "clock", "postgres")
]
print(machine(), flush=True)
for name in sys.argv[1:] or sorted(names):
    print(f"\n== {name}", flush=True)
    importlib.import_module(f"benchmarks.{name}").run()
