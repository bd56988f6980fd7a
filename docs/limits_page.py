"""The table of docs/limits.md, written from what the tests run of every kind of table (tests/shared/matrix.py).

python docs/limits_page.py   writes it anew (`make limits`)
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE / "limits.md"
BEGIN, END = "<!-- written by docs/limits_page.py -->\n", "<!-- end of what is written -->\n"

sys.path.append(str(HERE.parent / "tests" / "shared"))

from matrix import KINDS, QUESTIONS, REFUSED  # noqa: E402


def limits_page() -> str:
    """Return the page with its table as the tests have it."""
    text = PAGE.read_text(encoding="utf-8")
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: BEGIN + _table() + END, text, flags=re.DOTALL)


def _table() -> str:
    """Return a line a question; where a kind is refused stands the number of the reason, which follow."""
    reasons = list(dict.fromkeys(REFUSED.values()))
    lines = ["", "| | " + " | ".join(KINDS.values()) + " |", "|---" * (len(KINDS) + 1) + "|"]
    for question, asked in QUESTIONS.items():
        refused = [REFUSED.get((question, kind)) for kind in KINDS]
        cells = ("yes" if each is None else f"{reasons.index(each) + 1}" for each in refused)
        lines.append(f"| {asked} | " + " | ".join(cells) + " |")
    lines.append("")
    for number, each in enumerate(reasons, start=1):
        why = "cannot be: " if each.by_mathematics else ""
        lines.append(f"{number}. {why}{each.reason}")
    return "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    PAGE.write_text(limits_page(), encoding="utf-8")
