"""What is said of a release with a guarantee."""

from collections.abc import Mapping

import numpy as np

from allbutone.releases.private.mechanism import NoisyMoments
from allbutone.support.text import percent


def private_risk_sentence(found: Mapping[str, np.ndarray], told: NoisyMoments) -> str:
    """Say whether anyone was found out, and how that compares with what the guarantee allows."""
    people, disclosed = len(found["row"]), int(np.sum(found["disclosed"]))
    names = [key.removeprefix("bound_") for key in found if key.startswith("bound_")]
    means = [
        float(np.mean([found[f"{key}_{name}"] for name in names])) for key in ("probability", "baseline", "bound")
    ]
    head = (
        "No value is disclosed" if not disclosed else f"{disclosed:,} of {people:,} people have a value disclosed"
    )
    return (
        f"{head}. On average a value is guessed with probability {percent(means[0])}, {percent(means[1])} without "
        f"the release; the guarantee of ε = {told.epsilon:.3g} allows {percent(means[2])}."
    )
