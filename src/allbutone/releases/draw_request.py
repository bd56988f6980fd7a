"""What a caller of sample() asks for: how many datasets of how many rows, and where the randomness comes from."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from allbutone.releases.entropy import fresh_generator, keyed_generator
from allbutone.releases.release import MOST_DATASETS
from allbutone.support.checks import count_of
from allbutone.support.errors import Cure, InputError, describe_value


def dataset_sizes(datasets: int | None, rows: Any, people: int) -> list[int]:
    """Return the number of rows of each dataset to draw: a size for all, one for each, or as many as people."""
    if rows is not None and np.ndim(rows) > 0:
        if datasets is not None and len(rows) != datasets:
            raise InputError(
                f"rows names {len(rows)} sizes for {datasets} datasets", "give one for all or one for each"
            )
        return [count_of("rows", count) for count in rows]
    count = people if rows is None else count_of("rows", rows)
    return [count] * count_of("datasets", 1 if datasets is None else datasets, MOST_DATASETS)


def generator_for(
    kind: str,
    sizes: Sequence[int],
    columns: Sequence[str],
    models: Sequence[Any],
    repeat_key: Any,
    rng_for_tests: Any,
) -> np.random.Generator:
    """Return what draws a release of this kind and these sizes: fresh, or for this release by a repeat key."""
    if repeat_key is not None and rng_for_tests is not None:
        raise InputError("a release is drawn by a repeat key or by a generator, not by both")
    if repeat_key is not None:
        return keyed_generator(repeat_key, kind, sizes, columns, *models)
    if rng_for_tests is None:
        return fresh_generator()
    if not isinstance(rng_for_tests, np.random.Generator):
        raise InputError(
            f"rng_for_tests must be a numpy.random.Generator, got {describe_value(rng_for_tests)}",
            Cure("to repeat a release that is given to others, use a repeat key", "repeat_key"),
        )
    return rng_for_tests
