"""What classes draw beside what a table has: the check of the model with classes, or of what it would mend."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from allbutone.model.class_sampler import ClassChains, draw_classes
from allbutone.model.classes import ClassModel
from allbutone.model.incomplete import IncompleteRecords
from allbutone.support.parallel import one_thread

CHAINS, SWEEPS = 4, 100
DRAWN = 20_000  # rows that the model draws
SHARES = np.linspace(0.1, 0.9, 17)  # quantiles that are compared


@dataclass(frozen=True, eq=False)
class ClassFit:
    """How far the 10th to 90th percentiles of what classes draw lie from the table's, on average, in its SDs.

    On average: between two peaks a percentile says little.
    """

    columns: tuple[str, ...]
    gaps: Float[np.ndarray, " p"]

    @property
    def in_words(self) -> str:
        """The column in which they lie furthest apart."""
        if not self.columns:
            return "there is no measurement"
        return f"on average {np.max(self.gaps):.2f} SD ({self.columns[int(np.argmax(self.gaps))]})"


def fit_of_classes(columns: tuple[str, ...], table: IncompleteRecords, model: ClassModel) -> ClassFit:
    """Fit classes to a table, always in the same way, and compare what they draw with it, column by column."""
    if not columns:
        return ClassFit((), np.zeros(0))
    rng = np.random.default_rng(0)
    with one_thread():
        draws = draw_classes(ClassChains.start(model, table, rng, CHAINS), 1, most_sweeps=SWEEPS)
        parameters = draws.posteriors.draw(rng)
        rows = [parameters.take([chain]).draw_rows(rng, DRAWN // CHAINS)[1] for chain in range(CHAINS)]
    ours, theirs = (np.nanquantile(each, SHARES, axis=0) for each in (table.values, np.concatenate(rows)))
    return ClassFit(columns, np.mean(np.abs(ours - theirs), axis=0) / np.nanstd(table.values, axis=0))
