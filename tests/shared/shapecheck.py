"""Beartype as the tests use it: an int is a float, as everywhere in Python's type hints; and sparingly.

A check takes longer than most functions do. So within a test the first calls of each function are checked, and of
the thousands that may follow every hundredth. With ALLBUTONE_TEST_LONG all are.
"""

import inspect
import os
from functools import partial, wraps

import jaxtyping
from beartype import BeartypeConf, beartype

FIRST, THEN_EVERY = (10, 100) if not os.environ.get("ALLBUTONE_TEST_LONG") else (10, 1)
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
jaxtyped = jaxtyping.jaxtyped
turn = 0  # the number of the test that runs


def next_test():
    """Forget how often functions have been called: each test begins with calls that are checked."""
    global turn
    turn += 1


def sparingly(made=None, *, typechecker):
    """Decorate as `jaxtyped` does, so that most calls go past it where there are many."""
    if made is None:
        return partial(sparingly, typechecker=typechecker)
    if not inspect.isclass(made):
        return _mostly(made, jaxtyped(made, typechecker=typechecker))
    plain = made.__init__
    made = jaxtyped(made, typechecker=typechecker)  # checks the constructor of a dataclass
    if made.__init__ is not plain:
        made.__init__ = _mostly(plain, made.__init__)
    return made


def _mostly(plain, careful):
    test, calls = 0, 0

    @wraps(plain)
    def called(*args, **kwargs):
        nonlocal test, calls
        if test != turn:
            test, calls = turn, 0
        calls += 1
        return (careful if calls <= FIRST or calls % THEN_EVERY == 0 else plain)(*args, **kwargs)

    return called


def install():
    """Check the shapes of whatever the package calls, or one module of it; before it is imported."""
    jaxtyping.jaxtyped = sparingly  # which is what the hook writes before each function
    where = os.environ.get("ALLBUTONE_TEST_SHAPES", "allbutone")
    hook = jaxtyping.install_import_hook(where, "shapecheck.checked")
    from allbutone.tables import column, orders

    orders.Column = column.Column  # there it is a name for types alone, which older versions of jaxtyping look up
    return hook
