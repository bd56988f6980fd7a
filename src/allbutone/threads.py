"""How many threads the linear algebra itself may use."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """Keep linear algebra to one thread.

    Several would add in another order, so that a seed gave other last digits on a computer with more cores; and
    where blocks of work have threads of their own, they would wait for each other.
    """
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    # finding the libraries takes longer than limiting them
    return ThreadpoolController()
