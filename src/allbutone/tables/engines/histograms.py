"""How the values of columns are spread, counted where they are: narrow bins, and nothing of single records."""

from dataclasses import dataclass

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.tables.engines.asking import ask
from allbutone.tables.engines.lazy_records import LazyRecords

BINS = 1 << 14
REACH = 8.0  # standard deviations on either side of the mean that the bins cover
BLOCK_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of equal width of each of p columns, from `low` on; the first and the last hold all beyond, too."""

    low: Float[np.ndarray, " p"]
    width: Float[np.ndarray, " p"]

    @classmethod
    def about(cls, mean: Float[np.ndarray, " p"], spread: Float[np.ndarray, " p"]) -> "Bins":
        """Return bins a thousandth of a standard deviation wide, about the mean."""
        return cls(mean - REACH * spread, 2 * REACH * spread / BINS)

    @property
    def centres(self) -> Float[np.ndarray, "p bins"]:
        """The middle of each bin."""
        return self.low[:, None] + self.width[:, None] * (np.arange(BINS) + 0.5)

    def count(self, values: Float[np.ndarray, "n p"]) -> Int[np.ndarray, "p bins"]:
        """Count values in memory."""
        total = np.zeros((len(self.low), BINS), dtype=np.int64)
        for start in range(0, len(values), BLOCK_ROWS):
            place = np.floor((values[start : start + BLOCK_ROWS] - self.low) / self.width)
            for column, places in zip(total, np.clip(place, 0, BINS - 1).astype(np.int64).T, strict=True):
                column += np.bincount(places, minlength=BINS)
        return total

    def count_in_engine(self, records: LazyRecords) -> Int[np.ndarray, "p bins"]:
        """Count the values of a table that stays where it is: a query a column, whose answer is the counts."""
        total = np.zeros((len(self.low), BINS), dtype=np.int64)
        for column, (low, width) in enumerate(zip(self.low, self.width, strict=True)):
            place = (nw.col(f"x{column}") - float(low)) / float(width)
            above = nw.when(place > BINS - 1).then(float(BINS - 1)).otherwise(place)
            frame = records.measured().select(nw.when(place < 0).then(0.0).otherwise(above).alias("place"))
            # some engines round to whole numbers, others cut
            whole = nw.col("place").cast(nw.Int64)
            below = nw.when(whole > nw.col("place")).then(whole - 1).otherwise(whole)
            answer = ask(frame.select(below.alias("bin")).group_by("bin").agg(nw.len().alias("n")))
            total[column, answer["bin"].to_numpy()] = answer["n"].to_numpy()
        return total
