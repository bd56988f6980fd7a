"""The words of this program: each with its meaning for a board, and its definition for experts."""

import difflib
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from allbutone.support.errors import InputError


@dataclass(frozen=True)
class Term:
    """A word: how it stands in a sentence, what it means to everybody, and how it is defined."""

    key: str
    name: str
    plain: str
    expert: str


_TEXT = (files("allbutone.reports") / "glossary.toml").read_text(encoding="utf-8")
GLOSSARY = {key: Term(key, **words) for key, words in tomllib.loads(_TEXT).items()}


def find_term(asked: str) -> Term:
    """Return the term of a key or a name, however it is spelled."""
    known = {_plain(way): term for term in GLOSSARY.values() for way in (term.key, term.name)}
    term = known.get(_plain(asked))
    if term is None:
        near = [known[way] for way in difflib.get_close_matches(_plain(asked), known, n=3)]
        near += [each for way, each in known.items() if _plain(asked) and _plain(asked) in way]
        names = list(dict.fromkeys(each.key.replace("_", " ") for each in near))[:3]
        raise InputError(
            f"there is no word {asked!r} in the glossary",
            f"ask for {' or '.join(names)}" if names else "ask without a word for all of them",
        )
    return term


def glossary_page() -> str:
    """Return all words in Markdown, as they stand in the documentation."""
    lines = ["# The words", "", "Each with its meaning for everybody, and the definition for experts.", ""]
    for term in sorted(GLOSSARY.values(), key=lambda term: term.name.lower()):
        title = f"## {term.name[0].upper()}{term.name[1:]}"
        lines += [title, "", term.plain, "", f"*For experts:* {term.expert}", ""]
    return "\n".join(lines)


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("_", " ").replace("-", " ").split())


if __name__ == "__main__":
    print(glossary_page(), end="")
