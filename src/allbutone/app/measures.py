"""What a release tells of one record, as lines of a table: each measure beside that without the release."""

from dataclasses import dataclass

from allbutone.app.answer import Download, as_csv
from allbutone.app.page import piece
from allbutone.learned import Measures


@dataclass(frozen=True)
class Line:
    """One measure: with the release, ignoring it, and what it is."""

    name: str
    released: float
    ignoring: float
    help: str


def lines(found: Measures) -> list[Line]:
    """Return the measures of an attack."""
    return [
        Line(
            "Distance of the guess", found.distance, found.baseline_distance,
            "‖x̂ − x‖, the Euclidean distance of the posterior's mode from the record (paper 4.1); ignoring the "
            "release the guess is the centre of the others.",
        ),
        Line(
            "Relative error", found.relative_error, 1,
            "‖v̂ − u‖/‖u‖ in the others' own metric, v = Λ₋^(−½)(x − μ₋): the guess's Mahalanobis distance from "
            "the record over that of the crowd's centre. Not in the paper.",
        ),
        Line(
            "Exposure", found.exposure, 0,
            "t = v̂ᵀu/‖u‖²: how far the guess has travelled from the crowd (0) towards the record (1). Below 0 it "
            "went towards the mirror image. Not in the paper.",
        ),
        Line(
            "Exposure by the law", found.law_exposure, 0,
            "t² = ((k − 1)·q − r)/(q·(k + r − 1)) with leverage q; r = 1 + ν′/n_z for datasets of n_z rows, 1 for "
            "parameter draws; 0 up to the threshold k = 1 + r/q. Noise is averaged out. Not in the paper.",
        ),
        Line(
            "Mass near the record", found.mass, found.prior_mass,
            "The posterior probability of the ball (z − x)ᵀ·νΛ₋⁻¹·(z − x) ≤ 1 around the record x, beside that of "
            f"the Student t of the paper's section 3. Standard error {found.mass_error:.1g}.",
        ),
        Line(
            "Information gain, nats", found.information_gain, 0,
            "log p(x | release, others) − log p(x | others) at the record's true values, with the posterior of "
            f"the paper's section 3. Standard error {found.information_gain_error:.1g}.",
        ),
    ]  # fmt: skip


def measures_piece(found: Measures, noun: str, csv: str) -> str:
    """Return the table of measures; `noun` is what is released, `csv` the address of the same as a file."""
    return piece("measures.html", found=found, noun=noun, lines=lines(found), csv=csv)


def measures_csv(found: Measures) -> Download:
    """Return the measures as a file."""
    held = lines(found)
    return as_csv(
        "measures.csv",
        {
            "measure": [line.name for line in held],
            "with_the_release": [line.released for line in held],
            "ignoring_it": [line.ignoring for line in held],
        },
    )
