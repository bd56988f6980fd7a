"""Explore: how data, prior and release change what the adversary infers, on a simulated table."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float
from starlette.datastructures import QueryParams

from allbutone.adversary.landscape import Span
from allbutone.app import forms
from allbutone.app.jobs import Answer, Download, Progress
from allbutone.app.page import Page, Preset, RequestContext, Source, piece
from allbutone.app.pages.record import measures_csv, measures_piece, values_of, verdict_piece
from allbutone.app.pages.source import CARRIED
from allbutone.disclosure.record_view import AttackView, RecordAttack, exposure_curve, simulated, view_attack
from allbutone.disclosure.rule import USUAL
from allbutone.figures.attack_view import exposure_curve_figure, view_drawing
from allbutone.model.niw import NIW
from allbutone.paper.design import correlations
from allbutone.reports.verdict import Value
from allbutone.support.text import chance, counted, joined, number

# section 4.1: N(1, 3·I), the missing record at 20 in every column, and the prior's mean 1.1
STUDY = {
    "names": "", "n": "100", "mean": "1", "sd": "1.7320508075688772", "correlation": "0", "target": "20",
    "prior_mean": "1.1",
}  # fmt: skip


DATASETS = STUDY | {"count": "100", "n": "500", "rows": "1000"}
PARAMETERS = STUDY | {"kind": "parameters"}
PRESETS = (
    Preset(
        "Figure 1, panel A",
        "100 records, from 1 to 100 parameter draws (press Play).",
        PARAMETERS | {"count": "1"},
    ),
    Preset("Figure 1, panel B", "the same with datasets of 100 rows.", STUDY | {"count": "1"}),
    Preset(
        "Figure 2",
        "one table of the parameter draws' distances; vary records, columns and draws.",
        PARAMETERS | {"n": "50", "count": "2"},
    ),
    Preset(
        "Figure 3", "one table of the datasets' distances, two columns; vary rows, too.", DATASETS | {"p": "2"}
    ),
    Preset("Figure A1", "as Figure 3, three columns.", DATASETS | {"p": "3"}),
    Preset("Figure A2", "as Figure 3, five columns.", DATASETS | {"p": "5"}),
    Preset("Figure A3", "as Figure 3, ten columns.", DATASETS | {"p": "10"}),
)

# polygenic scores, which are counted in standard deviations of everybody's
NAMES = tuple(
    f"{name} (SD)"
    for name in (
        "type 2 diabetes", "coronary disease", "hypertension", "body mass", "HbA1c", "LDL cholesterol",
        "triglycerides", "kidney function", "bone density", "height",
    )
)  # fmt: skip
ROW = 212  # who you are, where there are as many
WIDEST = len(NAMES)  # columns
MOST_NUMBERS = 2_000_000  # in a simulated release
STILL = 1e-6  # the smallest eigenvalue of a correlation matrix, and of a shape
NUMBERED = {f"{place}": f"column {place}" for place in range(1, WIDEST + 1)}
UNIT = re.compile(r"\(([^()]+)\)$")  # at the end of a name
# fields that change what is seen of an attack, not the attack
VIEW = ("count", "x", "y", "hidden", "level", "held")


@dataclass(frozen=True)
class Names(forms.Field):
    """Names of columns between commas; those that are not named are numbered."""

    def value(self, text: str) -> tuple[str, ...]:
        """Return the names."""
        names = tuple(part.strip() for part in text.split(",") if part.strip())
        if len(set(names)) < len(names) or any(len(name) > 60 for name in names):
            raise self.refuse(text, "different names of up to 60 letters with commas between them")
        return names


@dataclass(frozen=True)
class HeldWindow(forms.Hidden):
    """The window that stands still while the star is dragged, which what comes back must fill; usually none."""

    def value(self, text: str) -> tuple[Span, Span] | None:
        """Return the spans across and upwards."""
        if not text:
            return None
        ends = forms.Numbers(self.name, self.label, low=-1e7, high=1e7).value(text)
        if len(ends) != 4 or ends[0] >= ends[1] or ends[2] >= ends[3]:
            raise self.refuse(text, "four numbers: from and to across, from and to upwards")
        return (ends[0], ends[1]), (ends[2], ends[3])


RELEASE = (
    forms.Choice(
        "kind", "What is released", "datasets",
        "Draws of the model's parameters Θ = (μ, Σ) from the posterior given all records (paper 3.1, case 1), or "
        "datasets Z, each of records from such a draw of its own (3.2, case 2).",
        {"datasets": "synthetic datasets", "parameters": "parameter draws"},
    ),
    forms.Whole(
        "count", "How many", "10",
        "k datasets or m draws, each from its own independent posterior draw. The release grows: what was out "
        "before stays as it is. The slider goes to 100; more can be typed where the release goes on to 1000.",
        1, 1000, 1, (1, 100),
    ),
    forms.Choice(
        "most", "The release goes on to", "100", "How far the curve is drawn.", {"100": "100", "1000": "1000"}
    ),
    forms.Whole(
        "rows", "Rows of each dataset", "100", "n_z in the paper's section 3.2.", 1, 2000, 1, (2, 500),
        only="kind=datasets",
    ),
)  # fmt: skip
TABLE = (
    forms.Choice(
        "p", "Columns", "2", "p, the features of a record (paper 2.2).",
        {f"{p}": f"{p}" for p in range(1, WIDEST + 1)},
    ),
    Names(
        "names", "Their names", ", ".join(NAMES),
        "Between commas, each with its unit in brackets. The usual ones are polygenic scores, counted in standard "
        "deviations.",
        blank=(),
    ),
    forms.Whole("n", "Records", "300", "n, the missing record included (paper 4.1).", 3, 2000, 1, (4, 500)),
    forms.Numbers(
        "mean", "True means", "0",
        "μ of N(μ, Σ), between commas, one a column; the last one stands for the rest (paper 4.1).",
    ),
    forms.Numbers("sd", "True standard deviations", "1", "σ in Σᵢⱼ = ρᵢⱼ·σᵢσⱼ, as the means (4.1).", 1e-3, 1e4),
    forms.Number(
        "correlation", "Correlation", "0.5", "ρ, as below; the paper's study has 0 (4.1).",
        -0.99, 0.99, 0.01, (-0.95, 0.95), only="structure!=matrix",
    ),
    forms.Choice(
        "structure", "Which pairs correlate", "equicorrelated",
        "ρᵢⱼ = ρ for all pairs; ρ^|i − j|; ρ within each half of the columns and 0 between them; or any matrix.",
        {
            "equicorrelated": "all alike", "ar1": "neighbours most (AR 1)", "block": "two blocks",
            "matrix": "any matrix",
        },
    ),
    forms.Matrix(
        "matrix", "Correlation matrix", "",
        "(ρᵢⱼ), a line a row: symmetric, positive definite, 1 on the diagonal. Nothing: no correlation.",
        only="structure=matrix",
    ),
)  # fmt: skip
TARGET = (
    forms.Numbers(
        "target", "Values of the missing record", "4, -2",
        "Drag the star on the picture, or type them here, one a column. Only its leverage matters: "
        "q = κ/(κ+1)·(x − μ₋)ᵀΛ₋⁻¹(x − μ₋), with κ, μ₋ and Λ₋ from the other records.",
    ),
)  # fmt: skip


PRIOR: tuple[forms.Field, ...] = (
    forms.Numbers("prior_mean", "Mean, μ₀", "0", "Between commas, one a column (paper 2.2)."),
    forms.Number(
        "prior_weight", "Weight, κ₀", "1", "μₓ = (κ₀μ₀ + n·x̄)/(κ₀ + n): worth κ₀ records (paper 2.2).",
        1e-3, 1e4, 0.1, (0.1, 50),
    ),
    forms.Number(
        "prior_extra", "Degrees of freedom beyond p, ν₀ − p", "2",
        "νₓ = ν₀ + n: for the spread, worth about ν₀ records; ν₀ > p − 1 (paper 2.2).", -0.9, 1e4, 0.1, (0, 100),
    ),
    forms.Number(
        "prior_scale", "Scale, λ in Λ₀ = λ·M", "1", "E[Σ] = Λ₀/(ν₀ − p − 1) (2.2).", 1e-4, 1e6, 0.1, (0.1, 50),
    ),
    forms.Matrix(
        "prior_shape", "Shape, M in Λ₀ = λ·M", "",
        "Any symmetric positive definite matrix, a line a row. Nothing: I, as in the paper (2.2).",
    ),
)  # fmt: skip
OWN_PRIOR = tuple(
    replace(one, name=one.name.replace("prior_", "own_"), only="linked=no", begins_as=one.name) for one in PRIOR
)
LINKED = (
    forms.Switch(
        "linked", "The same as the holder's", "yes",
        "The paper's adversary has the holder's prior. Unlink it to give the adversary another.",
    ),
)  # fmt: skip
READING = (
    forms.Choice(
        "reading", "It speaks of", "record",
        "The missing record alone, the mechanism being known: the Student t of the paper's section 3 is taken "
        "from it. Or the mechanism, too: the adversary believes that the release was made with it.",
        {"record": "the missing record", "mechanism": "the mechanism, too"}, only="linked=no",
    ),
)  # fmt: skip
SHOWN = (
    forms.Choice("x", "Across", "1", "", NUMBERED, only="p!=1|2"),
    forms.Choice("y", "Upwards", "2", "", NUMBERED, only="p!=1|2"),
    forms.Choice(
        "hidden", "The other columns", "mode",
        "Held at the mode: a slice, p(x, y | rest at the mode). Integrated out: the marginal, ∫ p(x, y, h) dh.",
        {"mode": "held at the mode", "integrated": "integrated out"}, only="p!=1|2",
    ),
    forms.Choice(
        "level", "Credible region", "0.95",
        "The smallest {x: p(x | release, others) ≥ c} of this probability; the posterior is that of the paper's "
        "section 3.",
        {"0.5": "50 %", "0.8": "80 %", "0.95": "95 %", "0.99": "99 %"},
    ),
    HeldWindow("held", "The window that is held"),
)  # fmt: skip
SEED = (forms.Whole("seed", "Seed", "1", "The same seed gives the same table and release.", 0, 2**32 - 1),)

GROUPS = (
    forms.Group("The release", RELEASE),
    forms.Group("The missing record", TARGET),
    forms.Group("The other records", TABLE),
    forms.Group("The holder's prior", PRIOR, folded=True),
    forms.Group("The adversary's prior", (*LINKED, *OWN_PRIOR, *READING), folded=True),
    forms.Group("What is shown", SHOWN),
    forms.Group("Chance", SEED),
)


def _answer(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    view, attack, level = _view(query)
    unit = unit_of(attack.columns)
    figure, row = view_drawing(view, attack.columns, level, unit), _row(attack)
    values = values_of(row, attack, view.measures, USUAL)
    story = story_of(view, attack, values, row)
    # what the script has to know: where the record is, and in which columns; how far the story has come
    figure["layout"]["meta"] |= {
        "target": [*view.target[list(view.shown)].tolist(), 0.0][:2], "shown": view.shown, "step": story.step,
    }  # fmt: skip
    released = counted(view.count, view.noun)
    parts = {
        "preset": f"Shown: {preset_in_use(query)}",
        "story": piece("explore_story.html", steps=story.captions, now=story.step),
        "told": verdict_piece(values, USUAL, f"this release of {released}", view.measures.evidence),
        "measures": measures_piece(view.measures, view.noun, "/explore/measures.csv", unit=unit),
    }
    return Answer(parts, {"landscape": figure})


def unit_of(columns: tuple[str, ...]) -> str:
    """Return the unit that all columns have in common; nothing where they have none."""
    units = {found[1] if (found := UNIT.search(name)) else "" for name in columns}
    return units.pop() if len(units) == 1 else ""


def preset_in_use(query: Mapping[str, str]) -> str:
    """Return what the page shows: a figure of the paper, the page as it opens, or what somebody has chosen."""
    asked = {name: query.get(name, one.default) for name, one in forms.every(GROUPS).items() if name in ATTACKED}

    def is_like(fields: Mapping[str, str]) -> bool:
        return all(text == fields.get(name, forms.every(GROUPS)[name].default) for name, text in asked.items())

    named = next((preset.name for preset in PRESETS if is_like(preset.fields)), "")
    return f"{named} of the paper" if named else "the story" if is_like({}) else "your own settings"


def _row(attack: RecordAttack) -> int:
    return min(ROW, len(attack.others) + 1)


@dataclass(frozen=True)
class Story:
    """Five captions, each a heading and a sentence, and the step that has been reached."""

    captions: tuple[tuple[str, str], ...]
    step: int


def story_of(view: AttackView, attack: RecordAttack, values: Sequence[Value], row: int) -> Story:
    """Tell the attack as it stands: who you are, what is known without a release, and what this one tells."""
    found, (unit, names) = view.measures, (unit_of(attack.columns), [bare(name) for name in attack.columns])
    of = f" {unit}" if unit else ""
    you = joined([f"{name} {number(value)}{of}" for name, value in zip(names, view.target.tolist(), strict=True)])
    member = None if found.evidence is None else float(USUAL.membership_of(np.array([found.evidence]))[0])
    out = [value for value in values if value.disclosed]
    leaked = ["that you are in the table"] * (member is not None and member >= USUAL.membership)
    leaked += [f"your {bare(value.column)}" for value in out if value.rest_known]
    alone = max((value for value in out if not value.rest_known), key=lambda value: value.after, default=None)
    sure = f"; that you are in the table is {chance(member)} sure, from 50\u00a0%" if member is not None else ""
    after = f"After {counted(view.count, view.noun)} it is {number(found.distance)}{of} from you{sure}."
    captions = (
        (f"You are row {row}", f"The star: {you}. Somebody has the records of the {len(attack.others):,} others, "
         "the dots, and not yours."),
        ("Nothing is out yet", f"Their best guess is the middle of the others, "
         f"{number(found.baseline_distance)}{of} from you."),
        (f"{view.noun.capitalize()}s go out", f"The guess follows them. {after}"),
        ("Something leaks", f"Who knows you well learns {joined(leaked)}." if leaked else
         "Not yet: not that you are in the table, and no value, even to who knows all your others."),
        ("Now the adversary finds you", _found(alone) if alone else "Not yet. Press Play."),
    )  # fmt: skip
    return Story(captions, 5 if alone else 4 if leaked else 3)


def _found(value: Value) -> str:
    knows = f"Your {bare(value.column)}: somebody who knew nothing of you {value.known}"
    return f"{knows}, with {chance(value.after)}; without the release {chance(value.before)}."


def bare(name: str) -> str:
    """Return the name of a column without its unit."""
    return UNIT.sub("", name).strip()


def _measures(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    view, attack, _ = _view(query)
    return measures_csv(view.measures, unit_of(attack.columns))


def _view(query: QueryParams) -> tuple[AttackView, RecordAttack, float]:
    asked = forms.read(GROUPS, query)
    if asked["count"] > int(asked["most"]):
        raise forms.FieldError(
            "count", f"the release goes on to {asked['most']} only", "let it go on to 1000", "ask for fewer",
            where="How many",
        )  # fmt: skip
    attack = _record_attack(query)
    p, level = attack.release.p, float(asked["level"])
    shown = tuple(range(p)) if p <= 2 else (int(asked["x"]) - 1, int(asked["y"]) - 1)
    if len(set(shown)) < len(shown) or max(shown) >= p:
        raise forms.FieldError("y", "Across and upwards are not two different columns", f"choose two of the {p}")
    how = {"hidden": asked["hidden"], "held": asked["held"], "level": level}
    return view_attack(attack, asked["count"], shown=shown, **how), attack, level


def _curve(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    forms.read(GROUPS, query)
    attack = _record_attack(query)
    return Answer(figures={"curve": exposure_curve_figure(exposure_curve(attack), 1, attack.noun)})


def _record_attack(query: QueryParams) -> RecordAttack:
    return _simulated(tuple(sorted((name, text) for name, text in query.items() if name in ATTACKED)))


@lru_cache(maxsize=32)  # simulated tables only, the same for everyone: a release that grows is drawn once
def _simulated(state: tuple[tuple[str, str], ...]) -> RecordAttack:
    asked = forms.read(GROUPS, dict(state))
    p = int(asked["p"])
    most, rows = int(asked["most"]), asked["rows"] if asked["kind"] == "datasets" else None
    if most * p * (rows or p) > MOST_NUMBERS:
        raise forms.FieldError(
            "rows", f"{most} datasets of {rows} rows of {p} columns are more numbers than this page draws",
            f"choose at most {MOST_NUMBERS // (most * p)} rows", where="Rows of each dataset",
        )  # fmt: skip
    correlation = _correlation(asked, p)
    sd = np.array(forms.Numbers.spread(asked["sd"], p))
    return simulated(
        np.array(forms.Numbers.spread(asked["mean"], p)),
        correlation * sd[:, None] * sd,
        np.array(forms.Numbers.spread(asked["target"], p)),
        n=asked["n"],
        rows=rows,
        most=most,
        prior=_prior(asked, "prior_", p),
        own=None if asked["linked"] else _prior(asked, "own_", p),
        reading=asked["reading"],
        seed=asked["seed"],
        columns=(*asked["names"][:p], *(f"column {place}" for place in range(len(asked["names"]) + 1, p + 1))),
    )


def _correlation(asked: dict[str, Any], p: int) -> Float[np.ndarray, "p p"]:
    if asked["structure"] == "matrix":
        found = _matrix(asked, "matrix", p, "Correlation matrix")
        if np.any(np.diagonal(found) != 1):
            raise forms.FieldError(
                "matrix", "its diagonal is not 1", "give correlations", where="Correlation matrix"
            )
        return found
    found = correlations(asked["structure"], p, asked["correlation"], 1)
    if np.linalg.eigvalsh(found)[0] < STILL:
        together = p if asked["structure"] == "equicorrelated" else (p + 1) // 2
        low = f"{-1 / (together - 1):.2f}"
        raise forms.FieldError(
            "correlation", f"{together} columns cannot all correlate below {low}", "raise it", where="Correlation"
        )
    return found


def _matrix(asked: dict[str, Any], name: str, p: int, label: str) -> Float[np.ndarray, "p p"]:
    """Return a positive definite matrix that was typed; the identity where nothing was."""
    if asked[name] is None:
        return np.eye(p)
    found = np.array(asked[name])
    if found.shape != (p, p):
        raise forms.FieldError(name, f"it has {len(found)} rows", f"give {p}, one a column", where=label)
    if np.linalg.eigvalsh(found)[0] < STILL * np.max(np.abs(found)):
        raise forms.FieldError(
            name, "no data have this matrix: it is not positive definite", "make what is off its diagonal smaller",
            where=label,
        )  # fmt: skip
    return found


def _prior(asked: dict[str, Any], begin: str, p: int) -> NIW:
    mean, weight, extra, scale = (asked[begin + name] for name in ("mean", "weight", "extra", "scale"))
    shape = _matrix(asked, f"{begin}shape", p, "Shape, M")
    return NIW(np.array(forms.Numbers.spread(mean, p)), weight, p + extra, scale * shape)


ATTACKED = forms.names(GROUPS, but=VIEW)
PAGE = Page(
    "explore",
    "Explore",
    GROUPS,
    answers={
        "answer": Source(_answer, forms.names(GROUPS)),
        "curve": Source(_curve, ATTACKED, slow=True, later=True),
    },
    files={"measures.csv": _measures},
    carried=CARRIED,
    presets=PRESETS,
)
