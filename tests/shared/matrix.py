"""What can be asked of which kind of table: every cell works, or is refused for a reason that is told here.

`journeys/test_matrix.py` runs each cell; `docs/limits_page.py` writes the table of docs/limits.md from it.
"""

from dataclasses import dataclass

KINDS = {
    "measurements": "measurements",
    "categories": "with categories",
    "gaps": "with gaps",
    "kept": "with kept columns",
    "guarantee": "with a guarantee",
    "engine": "in an engine",
    "classes": "through classes",
}

QUESTIONS = {
    "synthesize": "synthetic datasets",
    "parameters": "draws of the parameters",
    "risk": "risk of everyone",
    "known": "an adversary who knows columns of the target",
    "lacking_columns": "… who lacks columns of everyone",
    "lacking_records": "… who lacks further records",
    "own_prior": "… with a prior of their own",
    "several": "several releases together",
    "mechanisms": "… made by different mechanisms",
    "grown": "… made before the table grew",
    "budget": "budget",
    "epsilon": "ε of each record, or of the guarantee",
    "check": "check before it goes out",
    "report": "confidential report",
    "public": "public page",
    "fidelity": "fidelity",
    "model": "check of the model",
    "combine": "conclusions by combine",
    "ledger": "ledger",
    "upload": "app: upload, budget and release",
    "record": "app: page of a record",
    "device": "graphics card",
}


@dataclass(frozen=True)
class Refusal:
    """Why a cell is refused: words of the error by which it is known, and the reason as the page tells it.

    by_mathematics: whether it cannot be built at all; otherwise it is a hole.
    """

    words: str
    reason: str
    by_mathematics: bool = False


_NOISE = Refusal(
    "the adversary has all other records and the mechanism's limits|made with a guarantee",
    "noise is added to the moments of all columns and records at once: what it hides of one is not told apart",
    by_mathematics=True,
)
_ONCE = Refusal(
    "voids the guarantee|made with a guarantee",
    "noise is paid for once; any number of datasets follows from it at no further cost",
    by_mathematics=True,
)
_DECLARED = Refusal(
    "centres, spreads and limits alone|the adversary has all other records",
    "the prior is what the table file declares, and part of the guarantee",
    by_mathematics=True,
)
_ADDED = Refusal(
    "made with a guarantee|added up with others of its kind|which prior it was made with",
    "guarantees add up by their ε (`allbutone ledger`), not by attacks",
    by_mathematics=True,
)
_CARD = Refusal(
    "on the processor alone",
    "what noise hides is weighed at a few draws of each person, which a card does not speed up",
)
_LOSS = Refusal("classes", "the loss of classes that nobody has observed has no closed form")
_ROWS = Refusal("stays in its engine|elsewhere", "takes all rows here: collect them first")
_CLASSES = Refusal(
    "has all other records",
    "not built: with classes the adversary has all other records",
)
_CLASS_PARAMETERS = Refusal(
    "datasets alone",
    "means and spreads of classes of few people would tell more of them than any dataset, by no known law",
)
_UPLOADED = Refusal("the app has no", "what is uploaded is here, and in no engine", by_mathematics=True)

REFUSED: dict[tuple[str, str], Refusal] = {
    ("parameters", "guarantee"): _ONCE,
    ("known", "guarantee"): _NOISE,
    ("lacking_columns", "guarantee"): _NOISE,
    ("lacking_records", "guarantee"): _NOISE,
    ("own_prior", "guarantee"): _DECLARED,
    ("several", "guarantee"): _ADDED,
    ("mechanisms", "guarantee"): _DECLARED,
    ("grown", "guarantee"): _ADDED,
    ("budget", "guarantee"): _ONCE,
    ("ledger", "guarantee"): _ADDED,
    ("device", "guarantee"): _CARD,
    ("lacking_records", "engine"): _ROWS,
    ("check", "engine"): _ROWS,
    ("public", "engine"): _ROWS,
    ("ledger", "engine"): _ROWS,
    ("upload", "engine"): _UPLOADED,
    ("record", "engine"): _UPLOADED,
    ("parameters", "classes"): _CLASS_PARAMETERS,
    ("lacking_records", "classes"): _CLASSES,
    ("epsilon", "classes"): _LOSS,
}
