"""Explore: how data, prior and release change what the adversary infers, on a simulated table."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float
from starlette.datastructures import QueryParams

from allbutone.adversary.landscape import Span
from allbutone.app import forms
from allbutone.app.jobs import Answer, Download, Progress
from allbutone.app.page import Page, Preset, RequestContext, Source
from allbutone.app.pages.record import measures_csv, measures_piece, values_of, verdict_piece
from allbutone.app.pages.source import CARRIED
from allbutone.disclosure.record_view import AttackView, RecordAttack, exposure_curve, simulated, view_attack
from allbutone.disclosure.rule import USUAL
from allbutone.figures.attack_view import exposure_curve_figure, view_drawing
from allbutone.model.niw import NIW
from allbutone.paper.design import correlations
from allbutone.support.text import counted

# section 4.1: N(1, 3·I), the missing record at 20 in every column, and the prior's mean 1.1
STUDY = {"mean": "1", "sd": "1.7320508075688772", "correlation": "0", "target": "20", "prior_mean": "1.1"}


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

WIDEST = 10  # columns
MOST_NUMBERS = 2_000_000  # in a simulated release
STILL = 1e-6  # the smallest eigenvalue of a correlation matrix, and of a shape
NUMBERED = {f"{place}": f"column {place}" for place in range(1, WIDEST + 1)}
# fields that change what is seen of an attack, not the attack
VIEW = ("count", "x", "y", "hidden", "level", "held")


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
        {f"{p}": f"{p}" for p in range(2, WIDEST + 1)},
    ),
    forms.Whole("n", "Records", "100", "n, the missing record included (paper 4.1).", 3, 2000, 1, (4, 500)),
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
    forms.Choice("x", "Across", "1", "", NUMBERED, only="p!=2"),
    forms.Choice("y", "Upwards", "2", "", NUMBERED, only="p!=2"),
    forms.Choice(
        "hidden", "The other columns", "mode",
        "Held at the mode: a slice, p(x, y | rest at the mode). Integrated out: the marginal, ∫ p(x, y, h) dh.",
        {"mode": "held at the mode", "integrated": "integrated out"}, only="p!=2",
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
    figure = view_drawing(view, attack.columns, level)
    # what the script has to know to let the record be dragged: where it is, and of which columns that says
    figure["layout"]["meta"] |= {"target": view.landscape.target.tolist(), "shown": view.shown}
    values = values_of(len(attack.others) + 1, attack, view.measures, USUAL)
    released = counted(view.count, view.noun)
    parts = {
        "told": verdict_piece(values, USUAL, f"this release of {released}", view.measures.evidence),
        "measures": measures_piece(view.measures, view.noun, "/explore/measures.csv"),
    }
    return Answer(parts, {"landscape": figure})


def _measures(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    return measures_csv(_view(query)[0].measures)


def _view(query: QueryParams) -> tuple[AttackView, RecordAttack, float]:
    asked = forms.read(GROUPS, query)
    if asked["count"] > int(asked["most"]):
        raise forms.FieldError(
            "count", f"the release goes on to {asked['most']} only", "let it go on to 1000", "ask for fewer",
            where="How many",
        )  # fmt: skip
    attack = _record_attack(query)
    shown = int(asked["x"]) - 1, int(asked["y"]) - 1
    if attack.release.p == 2:
        shown = 0, 1
    if shown[0] == shown[1] or max(shown) >= attack.release.p:
        raise forms.FieldError(
            "y", "Across and upwards are not two different columns", f"choose two of the {attack.release.p}"
        )
    return (
        view_attack(attack, asked["count"], shown=shown, hidden=asked["hidden"], held=asked["held"]),
        attack,
        float(asked["level"]),
    )


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
        columns=tuple(f"column {place}" for place in range(1, p + 1)),
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
