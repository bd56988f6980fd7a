"""What this machine does at best: the speeds that all floors are made of."""

from collections.abc import Iterator

from benchmarks.clock import Row, bandwidth, variates


def rows() -> Iterator[Row]:
    normal, squares = variates()
    yield Row("memory, read and written by one core", bandwidth() / 1e9, unit="GB/s")
    yield Row("standard normal numbers, one core", 1e-6 / normal, unit="million/s")
    yield Row("χ² numbers, one core", 1e-6 / squares, unit="million/s")
