"""Drawing synthetic tables through classes: each from a draw of its own, nearly independent of the others."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from allbutone.model.class_sampler import CHAINS, ClassChains, ClassDraws, draw_rest, draw_with_kept
from allbutone.model.classes import ClassParameters
from allbutone.model.incomplete import GapPatterns, IncompleteRecords
from allbutone.releases.mechanism import KEEP_GAPS, Mechanism
from allbutone.support.errors import require_memory
from allbutone.support.parallel import one_thread
from allbutone.tables.records import Records

MOST_CHAINS = 16  # further datasets come from the same chains, far apart
FAR_APART = 50  # sweeps between two datasets of one chain


def draw_class_tables(
    mechanism: Mechanism,
    table: IncompleteRecords,
    rows: Sequence[int],
    rng: np.random.Generator,
    device: Any = None,
) -> tuple[list[Records], str]:
    """Draw one table for each entry of `rows`, and say how nearly independent the draws are."""
    model, kept = mechanism.class_model, mechanism.kept_alone(table)
    require_memory(sum(rows) * (model.p + len(model.sizes)))
    chains = min(max(len(rows), CHAINS), MOST_CHAINS)
    with one_thread():
        begun = ClassChains.start(model, table, rng, chains, device)
        draws = draw_with_kept(begun, kept, rng, -(-len(rows) // chains), apart=FAR_APART)
        parameters = draws.posteriors.take(slice(len(rows))).draw(rng)
        found = [
            draw_class_table(mechanism, table, parameters.take([number]), rng, count)
            for number, count in enumerate(rows)
        ]
    return found, in_words(draws, len(rows))


def draw_class_table(
    mechanism: Mechanism,
    table: IncompleteRecords,
    parameters: ClassParameters,
    rng: np.random.Generator,
    rows: int,
) -> Records:
    """Draw one table from one draw of the parameters, with gaps as the table has them where they are kept.

    Where columns are kept it has a row for each person, in an order of its own: who has the release need not know
    that of the table.
    """
    kept = mechanism.kept_alone(table)
    if kept is None:
        codes, values = parameters.draw_rows(rng, rows)
    else:
        codes, values = draw_rest(parameters, kept.take(rng.permutation(len(kept))), rng)
    gaps = GapPatterns.of(table).draw(rng, rows) if mechanism.missing == KEEP_GAPS else None
    return mechanism.with_gaps(values, codes, gaps)


def in_words(draws: ClassDraws, datasets: int) -> str:
    """Say how many classes there are, how nearly independent the datasets' draws are, and whether chains agree."""
    filled = [len(np.unique(each)) for each in draws.classes]
    low, high = min(filled), max(filled)
    count = "1 class" if high == 1 else f"{high} classes" if low == high else f"{low} to {high} classes"
    found, apart = draws.convergence, "Each dataset is drawn from a chain of its own."
    if datasets > draws.chains:
        apart = (
            f"Datasets are drawn from {draws.chains} chains, those of one chain {FAR_APART} sweeps apart: it says "
            f"something nearly independent every {found.spacing:,}."
        )
    agree = "The chains agree on what classes there are"
    if not found.reached:
        agree = (
            "In the later halves of their sweeps the chains do not agree on what classes there are, as is usual "
            "with many columns: each dataset has what its own chain found, and what differs between chains is "
            "in the errors that risk states"
        )
    return f"People fall into {count}. {apart} {agree} ({found.numbers})."
