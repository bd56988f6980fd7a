"""What README and docs print is run as it is printed; what they leave out fails here."""

import contextlib
import io
import os
import re
import runpy
import tomllib

import pytest
import typer.main

import allbutone as abo
import shapecheck
from allbutone.cli import main as cli
from pages import PAGES, ROOT, RUN, SHOWN, blocks_of, commands_of

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page):
    for block in blocks_of(page):
        assert not block.mark or block.why, f"{block.where}: a mark needs a reason"
        assert block.language in (*RUN, *SHOWN, "indented"), (
            f"{block.where}: {block.language!r} is neither run nor shown"
        )
        if block.language not in (*RUN, "r") and block.mark != "not run":
            typed = [line for line in block.code.splitlines() if line.split()[:1] in (["allbutone"], ["make"])]
            assert not typed, f"{block.where}: commands go into a block of sh, or are marked as not run"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(block.language in RUN for block in blocks_of(page))], ids=name_of
)
def test_a_page_runs_as_it_is_printed(page, allbutone, request, tmp_path, monkeypatch):
    if not LONG:
        request.getfixturevalue("few_trials")
        monkeypatch.setattr(shapecheck, "FIRST", 0)  # other tests check shapes
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks_of(page):
        if block.mark == "not run" or (block.mark == "long" and not LONG):
            continue
        if block.language in ("python", "setup"):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * block.line + block.code, block.page, "exec"), names)
        elif block.language == "toml":
            read_or_write(block, tmp_path)
        elif block.language == "sh":
            type_in(block, allbutone)


@pytest.mark.parametrize("example", sorted((ROOT / "docs" / "gallery").glob("*.py")), ids=name_of)
def test_an_example_of_the_gallery_draws_a_figure(example, few_trials, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shapecheck, "FIRST", 0)
    with contextlib.redirect_stdout(io.StringIO()):
        assert runpy.run_path(str(example))["figure"].data


def read_or_write(block, folder):
    """Read a block of TOML; one that names its file is that file from then on."""
    assert tomllib.loads(block.code), f"{block.where}: is empty"
    name = block.code.split("\n", 1)[0].removeprefix("# ")
    if name.endswith(".toml"):
        (folder / name).write_text(block.code, encoding="utf-8")


def type_in(block, allbutone):
    for program, *arguments in commands_of(block):
        assert program == "allbutone", f"{block.where}: {program} is not run by the tests; mark the block"
        code, _, errors = allbutone(*arguments)
        assert code == 0, f"{block.where}: allbutone {' '.join(arguments)}: {errors}"


def anchors_of(text):
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not link.startswith(("http://", "https://")):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists() or "generated/" in path, f"{name_of(page)}: {link}"
            if anchor:
                assert anchor in anchors_of(target.read_text(encoding="utf-8")), f"{name_of(page)}: {link}"


def test_every_page_is_in_the_contents():
    listed = set()
    for page in PAGES[1:]:
        for tree in re.findall(
            r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        ):
            names = (line for line in tree.split() if not line.startswith(":"))
            listed |= {(page.parent / f"{name}.md").resolve() for name in names}
    left_out = set(PAGES[1:]) - listed - {ROOT / "docs" / "index.md"}
    assert not left_out, f"add to a toctree: {sorted(map(name_of, left_out))}"


def test_the_reference_names_every_public_name(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import site_pages

    python = site_pages.python_page()
    for name in set(abo.__all__) - {"__version__"}:
        assert f"   python/{name}\n" in python
        assert f":: allbutone.{name}\n" in site_pages.name_page(name)


def test_formulas_are_typeset_and_nothing_else_is(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import typeset

    assert typeset.mathml("q₀ = dᵀΛ⁻¹d") == (
        '<msub><mi>q</mi><mrow><mn>0</mn></mrow></msub><mspace width="0.25em"></mspace><mo>=</mo>'
        '<mspace width="0.25em"></mspace><msup><mi>d</mi><mrow><mi mathvariant="normal">T</mi></mrow></msup>'
        '<msup><mi mathvariant="normal">Λ</mi><mrow><mo>−</mo><mn>1</mn></mrow></msup><mi>d</mi>'
    )
    page = ["So:\n\n    a = √(b² + n_z,ⱼ)/c^(p−1) < 1\n\n```\n\n    x = 1\n```\n\n    no sign of one\n"]
    typeset.formulas_as_mathml(None, "page", page)
    assert page[0].count("<math") == 1
    assert "<msqrt><msup><mi>b</mi>" in page[0]
    assert "&lt;" in page[0]
    assert "```\n\n    x = 1\n```" in page[0]
    assert "    no sign of one" in page[0]
    made = ['.. raw:: html\n\n      <div class="title">x</div>\n    </div>\n']  # by what builds the gallery
    typeset.formulas_as_mathml(None, "generated/gallery/index", made)
    assert "<math" not in made[0]


def test_the_page_of_commands_is_that_of_the_program(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from commands_page import PAGE, commands_page

    page = PAGE.read_text(encoding="utf-8")
    assert page == commands_page(), "docs/commands.md is written from the commands: make commands"
    for name, command in typer.main.get_command(cli.command_line()).commands.items():
        section = page.split(f"## allbutone {name}\n")[1].split("\n## ")[0]
        assert command.help, f"allbutone {name} has no help text"
        for each in command.params:
            shown = each.opts[0] if each.opts[0].startswith("-") else each.name.upper()
            assert f"`{shown}" in section, f"docs/commands.md: allbutone {name} says nothing of {shown}"
            assert getattr(each, "help", ""), f"{shown} of allbutone {name} has no help text"
