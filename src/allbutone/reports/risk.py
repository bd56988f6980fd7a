"""The risk as a table of numbers that knows what it says: the verdict, who comes closest, and their picture."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np

from allbutone.adversary.who import USUAL, Adversary
from allbutone.disclosure.measures import RADIUS, SAME_START
from allbutone.disclosure.rule import Rule, ToldValues
from allbutone.disclosure.table_risk import risk_of_table
from allbutone.releases.folder import AnyRelease
from allbutone.reports.verdict import NOT_COMPARED, NOTHING, ONE_ALONE, Verdict, value_lines, values_at, verdict_of
from allbutone.support.devices import HERE
from allbutone.support.text import ShowsItself
from allbutone.tables.schema import Schema

SHOWN = 5  # people who come closest


@dataclass(frozen=True, eq=False, repr=False)
class PeopleTable(ShowsItself):
    """A table with a row for each person that is a result: the dataframe that `frame` holds. Confidential.

    The dataframe is of the library in which the table came: what is asked of one can be asked of this,
    `found["risk"]` or `found.filter(…)`. Any other library takes it by Arrow, or by `to_pandas`, `to_polars` and
    `to_arrow`; iterated, it gives a dict a person. `measures`: the columns as arrays.
    """

    measures: dict[str, np.ndarray]
    library: Any

    @cached_property
    def frame(self) -> Any:
        """The dataframe itself."""
        return nw.from_dict(self.measures, backend=self.library).to_native()

    def to_pandas(self) -> Any:
        """Return it as a dataframe of pandas."""
        return nw.from_native(self.frame).to_pandas()

    def to_polars(self) -> Any:
        """Return it as a dataframe of polars."""
        return nw.from_native(self.frame).to_polars()

    def to_arrow(self) -> Any:
        """Return it as a table of pyarrow."""
        return nw.from_native(self.frame).to_arrow()

    def __getattr__(self, name: str) -> Any:
        """Ask the dataframe for what this has not itself."""
        if name.startswith("__"):  # how Python copies and pickles is not the dataframe's affair
            raise AttributeError(name)
        return getattr(self.frame, name)

    def __getitem__(self, what: Any) -> Any:
        """Return what the dataframe has there."""
        return self.frame[what]

    def __len__(self) -> int:
        """Return how many people there are."""
        return len(self.frame)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Give a dict a person."""
        return nw.from_native(self.frame, eager_only=True).iter_rows(named=True)

    def __contains__(self, name: object) -> bool:
        """Say whether there is such a column."""
        return name in self.measures

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return it for every library that takes Arrow's tables."""
        return nw.from_native(self.frame, eager_only=True).__arrow_c_stream__(requested_schema)

    def __narwhals_dataframe__(self) -> Any:
        """Let narwhals take it for the dataframe that it is."""
        return nw.from_native(self.frame, eager_only=True)._compliant_frame


@dataclass(frozen=True, eq=False, repr=False)
class RiskTable(PeopleTable):
    """What a release gives away of each person, a row each, and the verdict on it. Confidential.

    `outside`: what is declared that people outside can know of a person. `schema`: what is declared of columns.
    `only`: what the one adversary knows who was asked about, where that is one alone.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    >>> abo.risk(cohort, release, mass=False).verdict.people
    503
    """

    rule: Rule
    outside: tuple[str, ...] = ()
    schema: Schema = NOTHING
    only: tuple[str, ...] | None = None

    @cached_property
    def verdict(self) -> Verdict:
        """What the rule says of the release as it was drawn; whether as much is safe, a budget tells."""
        found = verdict_of(self.measures, self.rule, outside=self.outside, schema=self.schema)
        return replace(found, only=self.only, left_open=NOT_COMPARED if self.only is None else ONE_ALONE)

    def closest(self, most: int = SHOWN) -> list[dict[str, object]]:
        """Return those of whom a value is disclosed most surely, or comes closest to it, and which, in words."""
        told = ToldValues.of(self.measures, self.rule)
        people = told.order[:most]
        return value_lines(values_at(self.measures, told, people, told.worst[people], self.outside, self.schema))


def risk(
    table: Any,
    release: AnyRelease,
    adversary: Adversary = USUAL,
    *,
    probability: float = 0.5,
    membership: float = 0.9,
    membership_odds: float = 1.0,
    radius: float = RADIUS,
    mass: bool = True,
    rng: np.random.Generator | None = None,
    device: str = HERE,
    **how_to_read: Any,
) -> RiskTable:
    """Return what the release gives away of each record: a dataframe in the table's own library, and its verdict.

    One row a record (`row` counts from 1): whether a value of it is `disclosed`, the `risk`, which is the
    probability that the adversary gives to the true value of the `riskiest` column, within its tolerance;
    disclosed means that this is at least `probability`, and by the release (see `Rule`); `adversary`: who gives
    it, one who lacks the record or one who knows the rest of it. `membership`: the probability that somebody who
    has the person's record, and gave `membership_odds` to it before, gives to the person's being in the table,
    disclosed where that comes to `membership`. Then the measures: the
    paper's `distance` of the adversary's guess beside `baseline_distance`, that of guessing the centre of the
    others; `relative_error` and `exposure` in the others' metric; the posterior `mass` within a Mahalanobis
    `radius` of the truth beside `prior_mass`; `information_gain` at the truth in nats. And for each column the
    `probability_…` of the true value within `tolerance_…` (natural units) beside `baseline_…`, without the
    release, its standard error, and the error of the guess; `rest_known_…` are the same where all other values of
    the person are known. The release may be its folder; several releases of the
    table, in a list, are attacked together. `rng`: of the integrals; left out, that of every front end. How the
    table is read is said as to `Records.of` (complete_cases, missing_codes, …).

    Who attacks is described by `adversary`: usually somebody who has every record but one. Records that they lack
    besides are inferred together with the target by sampling, and standard errors come as columns.

    A lazy frame (polars, DuckDB, Dask, …) stays in its engine: its records come here in blocks. With
    `device="cuda"` attacks, and the drawing of classes, run on a graphics card, by PyTorch.

    Of a table with categories, `probability_…` is that of each record's own level, beside `baseline_…`, without
    the release; the measurements are judged as if the adversary had the categories right, and the gain is of
    everything at once. With gaps, what is observed of each record is judged, and standard errors come as columns.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    >>> risks = abo.risk(cohort, release, abo.Adversary(known=["BMI"]), mass=False)
    >>> risks.column_names[:4]
    ['row', 'disclosed', 'risk', 'riskiest']
    >>> len(risks)
    503
    """
    rule = Rule.of(probability, membership, membership_odds)
    rng = np.random.default_rng(SAME_START) if rng is None else rng
    asked: dict[str, Any] = {"rule": rule, "radius": radius, "mass": mass, "rng": rng, "device": device}
    found = risk_of_table(table, release, adversary, asked, **how_to_read)
    only = None if adversary.known is None else adversary.known_columns
    return RiskTable(found.columns, found.library, rule, found.outside, found.schema, only)
