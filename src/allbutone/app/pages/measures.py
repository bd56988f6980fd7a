"""What a release tells of one record, as lines of a table: each measure beside that without the release."""

from dataclasses import dataclass

from allbutone.app.answer import Download, as_csv
from allbutone.app.page import piece
from allbutone.record_view.record_measures import RecordMeasures


@dataclass(frozen=True)
class Line:
    """One measure: with the release, ignoring it, its word in the glossary, and how exact it is."""

    name: str
    released: float
    ignoring: float
    term: str
    note: str = ""


def lines(found: RecordMeasures) -> list[Line]:
    """Return the measures of an attack."""
    mass_error, gain_error = (f" Standard error about {error:.1g}." for error in
                              (found.mass_error, found.information_gain_error))  # fmt: skip
    return [
        Line("Distance of the guess", found.distance, found.baseline_distance, "distance"),
        Line("Relative error", found.relative_error, 1, "relative_error"),
        Line("Exposure", found.exposure, 0, "exposure"),
        Line("Expected exposure (closed form)", found.law_exposure, 0, "expected_exposure"),
        Line("Mass near the record", found.mass, found.prior_mass, "mass", mass_error),
        Line("Information gain (nats)", found.information_gain, 0, "gain", gain_error),
    ]


def measures_piece(found: RecordMeasures, noun: str, csv: str, epsilon: float | None = None) -> str:
    """Return the table of measures; `noun` is what is released, `csv` the address of the same as a file.

    epsilon: the record's own, where it is known.
    """
    return piece("measures.html", found=found, noun=noun, lines=lines(found), csv=csv, epsilon=epsilon)


def measures_csv(found: RecordMeasures) -> Download:
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
