"""A guarantee: how strong it is asked to be, which table can have one, and what is drawn with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import QueryParams

from allbutone.app.forms import Choice, FieldError, Group, Number, read
from allbutone.app.page import RequestContext
from allbutone.app.pages import columns as declared
from allbutone.app.pages import source
from allbutone.app.pages.source import Chosen
from allbutone.disclosure.guarantee_plan import NO_PRIVACY, NOISE, GuaranteePlan, plan_guarantee, useful
from allbutone.model.niw import NIW
from allbutone.releases.gaussian_account import DELTA, delta_of, gaussian_mu
from allbutone.releases.ledger_file import Terms
from allbutone.releases.mechanism import CLASSES, IMPUTE, KEEP_GAPS, REFUSE
from allbutone.releases.private_release import ADJACENCY, read_private
from allbutone.releases.public_ball import require_public
from allbutone.releases.release import Release
from allbutone.releases.synthesizer import Synthesizer, require_possible_guarantee
from allbutone.support.errors import InputError
from allbutone.tables.admission import ColumnsError, refusal
from allbutone.tables.schema import Schema

WITH_NOISE = "noise"
AT_COLUMNS = "declare it at “The columns” of step 2, Mend, from public knowledge"
SHOWN = (0.5, 1.0, 2.0, 5.0, 10.0)  # what of ε the figure shows, besides that asked for
ASKED = Group(
    "A guarantee",
    (
        Choice(
            "guarantee", "Is noise added?", "",
            "Differential privacy: whatever anybody knows and whatever the table holds, what can be concluded of "
            "a person depends little on their record. It takes limits and levels that are public (step 2, Mend), "
            "costs accuracy, and is paid for once: any number of datasets follows.",
            {"": "no: judged by the rule alone", WITH_NOISE: "yes: a guarantee (ε, δ)"},
        ),
        Number(
            "epsilon", "ε", "1",
            "One person's record makes no event more than e^ε times as likely: 1 is strict, 10 promises hardly "
            "anything. Choose it before you look at what comes out.",
            0.01, 100, 0.1, only=f"guarantee={WITH_NOISE}",
        ),
        Number(
            "delta", "δ", f"{DELTA:g}",
            "But for this probability, which must lie below one over the number of people.",
            1e-15, 0.1, 0.1, only=f"guarantee={WITH_NOISE}",
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Guaranteed:
    """What is to be guaranteed, and what is declared of the columns for that."""

    schema: Schema
    epsilon: float
    delta: float

    @property
    def has_centres(self) -> bool:
        """Whether the middle and the spread of every measurement are declared."""
        return all(column.centre is not None for column in self.schema.measurements)

    def draw(self, chosen: Chosen, datasets: int, rows: int | None) -> Release:
        """Spend ε on the table, and draw datasets from what the noise leaves."""
        synthesizer = Synthesizer(epsilon=self.epsilon, delta=self.delta, missing=chosen.missing)
        return synthesizer.fit(chosen.records, schema=self.schema).sample(datasets=datasets, rows=rows)

    def terms(self, chosen: Chosen) -> Terms:
        """Return what it adds to a declared total."""
        mu = gaussian_mu(self.epsilon, delta_of(self.delta, len(chosen.records.values)))
        return Terms(rho=mu**2 / 2, adjacency=ADJACENCY)

    def plan(self, people: int) -> GuaranteePlan:
        """Return what it costs at several ε, from public figures alone."""
        return plan_guarantee(self.schema, people, sorted({*SHOWN, self.epsilon}), delta=self.delta)

    def cost(self, plan: GuaranteePlan) -> tuple[dict[str, Any], dict[str, Any], bool]:
        """Return the errors to expect at this ε, those without noise, and whether the first leave something."""
        (own,) = [row for row in plan.of(NOISE) if row["epsilon"] == self.epsilon]
        return own, plan.of(NO_PRIVACY)[0], useful(own)


def is_asked(query: Mapping[str, str]) -> bool:
    """Say whether an address asks for one."""
    return bool(read((ASKED,), query, "guarantee")["guarantee"])


def admitted(query: QueryParams, context: RequestContext) -> tuple[Chosen, Guaranteed]:
    """Return the records, of which values may pass the limits, and the guarantee; or say what it lacks."""
    held, asked = source.table_of(query, context), read((*source.SOURCE_GROUPS, ASKED), query)
    said = declared.declaration(query, held, asked)
    said.require_visits()
    keep = declared.kept_columns(query, held.value.names)
    _require_nothing_of_the_table(asked, keep)
    reading = source.reading_of(source.ticked_columns(query), held, asked, said)
    used = reading.columns or held.value.names
    if wrong := [fault for fault in said.problems if fault.column in used]:
        raise refusal(wrong)
    which, badly_named = source.which_columns(held.value, reading)
    if badly_named:
        raise refusal(badly_named)
    missing = asked["gaps"] if reading.gaps else REFUSE

    def wide() -> tuple[Any, Schema]:
        records, schema = read_private(
            held.value.content, said.schema, missing, rows_are_people=reading.rows_are_people, **which
        )
        require_public(schema, records.natural)
        return records, schema

    try:
        records, schema = held.get_or_compute(("wide", reading, said.schema, missing), wide)
    except ColumnsError:
        raise
    except InputError as error:
        raise InputError(error.problem, *error.cures, AT_COLUMNS, where=error.where) from error
    flat = NIW.flat(max(1, len(records.columns)))
    chosen = Chosen(held.value.name, records, flat, "", held, reading, False, missing=missing)
    return chosen, Guaranteed(schema, asked["epsilon"], asked["delta"])


def _require_nothing_of_the_table(asked: Mapping[str, Any], keep: tuple[str, ...]) -> None:
    """Refuse what has no guarantee, and choices that depend on what the table holds."""
    require_possible_guarantee(None, None, asked["classes"] if asked["model"] == CLASSES else 0, keep)
    for name, chosen, problem, cure, where in (
        ("gaps", asked["gaps"] not in (REFUSE, IMPUTE, KEEP_GAPS), "nobody may be left out for what is missing "
         "of them", "impute or keep the gaps, and say at “The columns” which may have some", "Rows with gaps"),
        ("unusable", asked["unusable"] == "leave-out", "nothing may depend on what the table holds, as which "
         "columns cannot be used does", "untick them", "Columns that cannot be used"),
        ("leave", bool(asked["leave"]), "nobody may be left out", "take it back at step 2, Mend", "Rows left out"),
    ):  # fmt: skip
        if chosen:
            raise FieldError(name, f"with a guarantee {problem}", cure, where=where)
