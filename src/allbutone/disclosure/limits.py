"""Limits: what no record may pass."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from allbutone.disclosure.measures import Measures
from allbutone.disclosure.simulation import Simulated
from allbutone.support.errors import InputError, describe_value

KINDS = ("exposure", "gain", "mass")
MOST_MASS = 0.99  # the largest limit of mass


@dataclass(frozen=True)
class Limit:
    """What no record may pass: an exposure, an information gain in nats, or a gain in posterior mass."""

    kind: str
    value: float

    @classmethod
    def of(cls, limit: "str | Limit") -> "Limit":
        """Read `exposure=0.5`, `gain=1` or `mass=0.05`; a limit is taken as it is."""
        if isinstance(limit, Limit):
            return limit
        kind, _, number = limit.partition("=") if isinstance(limit, str) else ("", "", "")
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if kind not in KINDS or not value > 0 or (kind != "gain" and value >= 1) or not np.isfinite(value):
            raise InputError(
                f"a limit reads exposure=0.5, gain=1 or mass=0.05, got {describe_value(limit)}",
                "an exposure and a mass lie between 0 and 1, a gain in nats is above 0",
            )
        if kind == "mass" and value > MOST_MASS:
            raise InputError(
                f"masses are estimated, and one above {MOST_MASS} cannot be told from certainty, got {value:.15g}",
                f"give a limit of {MOST_MASS} or less",
            )
        return cls(kind, value)

    @property
    def text(self) -> str:
        """The limit as `of` reads it, for commands and addresses."""
        return f"{self.kind}={self.value:.15g}"

    def passed(self, found: Measures | Simulated) -> Bool[np.ndarray, "*each"]:
        """Say where the limit is passed.

        An exposure counts as passed when the guess has come that share of the way, that is, within the rest of the
        distance: a guess that lands far beside the record has not found it, however far it has travelled.
        What could not be computed counts as passed.
        """
        if self.kind == "exposure":
            return ~(found.relative_error > 1 - self.value)
        return ~((found.information_gain if self.kind == "gain" else found.mass_gained) <= self.value)

    def __str__(self) -> str:
        """Return the limit in words."""
        return {
            "exposure": f"exposure {self.value:g}",
            "gain": f"a gain of {self.value:g} nat{'' if self.value == 1 else 's'}",
            "mass": f"{self.value:g} of posterior mass gained",
        }[self.kind]
