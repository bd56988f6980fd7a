"""One home for the words: every front end takes them from the glossary, and a board can read them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from allbutone.reports.glossary import GLOSSARY, find_term, glossary_page
from allbutone.support.errors import InputError

ROOT = Path(__file__).parents[2]
# what a board cannot be expected to know
JARGON = re.compile(r"nats?\b|e\^|posterior|mode\b|Mahalanobis|crowd|\blaw\b|[ΛμκνΣθ₋²‖]", re.IGNORECASE)


@pytest.mark.parametrize("term", GLOSSARY.values(), ids=lambda term: term.key)
def test_a_board_can_read_the_meaning(term):
    assert not JARGON.search(term.plain)
    assert term.plain.endswith((".", "?"))
    assert term.expert.endswith(".")
    assert len(term.plain.split()) <= 75


def test_a_word_is_found_by_key_and_by_name():
    for term in GLOSSARY.values():
        assert find_term(term.key) == find_term(term.name.upper()) == term


def test_an_unknown_word_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="ask for tolerance"):
        find_term("tolerence")
    with pytest.raises(InputError, match="without a word"):
        find_term("zzz")


def test_the_documentation_holds_the_same_words():
    """To write it anew: python -m allbutone.reports.glossary > docs/glossary.md."""
    assert (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8") == glossary_page()


def test_every_question_mark_of_the_app_is_a_word_of_the_glossary():
    asked = set()
    for template in (ROOT / "src" / "allbutone" / "app" / "templates").glob("*.html"):
        asked |= set(re.findall(r'controls\.term\("(\w+)"', template.read_text(encoding="utf-8")))
    assert asked
    assert asked <= set(GLOSSARY)


def test_the_command_line_explains():
    told = subprocess.run(
        [sys.executable, "-m", "allbutone", "explain", "standard", "deviation"],
        capture_output=True, encoding="utf-8", check=True,
    ).stdout  # fmt: skip
    term = GLOSSARY["standard_deviation"]
    assert told == f"{term.name}: {term.plain}\nFor experts: {term.expert}\n"
