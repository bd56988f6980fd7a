"""The pages of the documentation, as what can be run of them: blocks in their order, and the marks before them.

A mark is an HTML comment of its own lines, which readers of the page do not see:

    <!-- setup            Python that is run first, such as making the table that the page is about
    …
    -->
    <!-- not run: why --> the next block is not run
    <!-- long: why -->    the next block is run by `make test-long` only

A block of TOML that begins with a comment `# name.toml` is the file of that name.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("records/*.md")),
    *sorted((ROOT / "docs").glob("tutorials/*.md")),
]
RUN = ("python", "sh", "toml", "setup")
SHOWN = ("", "text", "r", "md")  # answers, forms of a command, other languages
MARK = re.compile(r"<!--\s*(setup|not run:|long:)(.*?)-->", re.DOTALL)
BLOCK = re.compile(
    r"^<!--(?P<comment>.*?)-->\n"
    r"|^(?P<fence>```+)(?P<language>[^\n]*)\n(?P<code>.*?)^(?P=fence)\n"
    r"|(?<=\n\n)(?P<indented>(?:    [^\n]*\n|\n)+)",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A block of code: where it stands, its language, its text, and what the mark before it says."""

    page: str
    line: int
    language: str
    code: str
    mark: str = ""
    why: str = ""

    @property
    def where(self) -> str:
        """Return where to look for it."""
        return f"{self.page}, line {self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page in order; what is hidden in a comment as setup is a block, too."""
    text, found = page.read_text(encoding="utf-8"), []
    mark = why = ""
    for match in BLOCK.finditer(text):
        where = page.relative_to(ROOT).as_posix(), text[: match.start()].count("\n") + 1
        if (comment := MARK.match(match[0])) and comment[1] == "setup":
            found.append(Block(*where, "setup", comment[2].strip("\n"), mark, why))
            mark = why = ""
        elif comment:
            mark, why = comment[1].rstrip(":"), comment[2].strip()
        elif match["fence"] and not match["language"].startswith("{"):
            found.append(Block(*where, match["language"].strip(), match["code"], mark, why))
            mark = why = ""
        elif match["indented"]:
            found.append(Block(*where, "indented", match["indented"], mark, why))
    return found


def commands_of(block: Block) -> list[list[str]]:
    """Return the commands of a block of the shell, each as its words, without prompts and comments."""
    lines = block.code.replace("\\\n", " ").splitlines()
    split = (shlex.split(re.sub(r"^\w*\$ ", "", line), comments=True) for line in lines)
    return [[words[0].removeprefix(".venv/bin/"), *words[1:]] for words in split if words]
