"""What is said of the ε of single records."""

from typing import Any

import numpy as np

from allbutone.disclosure.privacy_loss import usual_delta
from allbutone.support.text import number


def epsilon_words(epsilon: Any) -> str:
    """Say what the ε of the records of a table are, and what they are not."""
    return (
        f"In the language of differential privacy, the epsilon of half of the records is at most "
        f"{number(float(np.median(epsilon)))}, and the highest of all is {number(float(np.max(epsilon)))} "
        f"(δ = {usual_delta(len(epsilon)):g}): per record, computed from the data, confidential, and not "
        "a guarantee."
    )
