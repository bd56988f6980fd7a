"""Formulas of the pages, written in Unicode on lines of their own, as MathML, which any browser reads offline."""

import re
import unicodedata
from html import escape

LOW = dict(zip("₀₁₂₃₄₅₆₇₈₉ⱼᵢₗₖₙₘₓₚ₋₊", "0123456789jilknmxp−+", strict=True))
HIGH = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹ᵀʲⁱˡᵏᵐᵈⁿᵖ⁻⁺⁽⁾′*", "0123456789Tjilkmdnp−+()′*", strict=True))
WORDS = {"at", "of", "so", "is", "by", "on", "to", "in", "or", "if", "as", "it", "sd", "IW", "max", "min", "log"}
FENCES = {"|", "‖", "(", ")", "[", "]", "{", "}"}
TOKEN = re.compile(
    r"(?P<space> +)|(?P<number>\d+(?:[.,]\d+)*)|(?P<word>[^\W\d_]+(?:['’-][^\W\d_]+)*)|(?P<sign>.)", re.DOTALL
)
LETTERED = re.compile(r"(?<![\w`$])([^\W\d_])_([^\W\d_]{1,2}|\d)(?![\w(])")  # n_θ in a sentence
FORMULA = re.compile(r"[=∝≤≥≈·−∫√ᵀΣΠσ]")


def formulas_as_mathml(app, page: str, source: list[str]) -> None:
    """Set the indented blocks of a page, but for what is no formula or goes on over lines; and n_θ in words.

    Pages that are written when the site is built have no formulas of their own.
    """
    if page.startswith("generated/"):
        return
    lines, out, fenced = source[0].split("\n"), [], False

    def plain(line: str) -> str:
        if fenced or line.startswith("#"):
            return line
        parts = line.split("`")
        parts[::2] = (LETTERED.sub(r"\1<sub>\2</sub>", part) for part in parts[::2])
        return "`".join(parts)

    while lines:
        line = lines.pop(0)
        fenced ^= line.lstrip().startswith("```")
        indent = re.match(r"( {0,2})(?= {4}\S)", line)
        if fenced or indent is None or (out and out[-1].strip()):
            out.append(plain(line))
            continue
        block = [line]
        while lines and lines[0].startswith(indent[0] + "    "):
            block.append(lines.pop(0))
        whole = all(FORMULA.search(each) and _is_one_line(each) for each in block)
        out += [indent[0] + each for each in _shown(block).split("\n")] if whole else block
    source[0] = "\n".join(out)


def _is_one_line(line: str) -> bool:
    """Say whether all brackets of a line are closed on it; a matrix goes on over lines."""
    return "(   " not in line and all(line.count(left) == line.count(right) for left, right in ("()", "[]", "{}"))


def _shown(lines: list[str]) -> str:
    rows = "".join(f"<mtr><mtd>{mathml(line.strip())}</mtd></mtr>" for line in lines)
    words = escape("; ".join(line.strip() for line in lines), quote=True)
    table = f'<math display="block" alttext="{words}"><mtable columnalign="left">{rows}</mtable></math>'
    return (
        f'```{{raw}} html\n<div class="formula" role="group" aria-label="Formula" tabindex="0">{table}</div>\n```'
    )


def mathml(formula: str) -> str:
    """Return a formula in MathML: letters with what stands low and high beside them, and words as words."""
    out: list[str] = []
    rest = _tokens(formula)
    while rest:
        out.append(_scripted(rest))
    return "".join(out)


def _tokens(formula: str) -> list[str]:
    """Cut a formula into letters, numbers, words and signs; marks above a letter stay with it."""
    found = []
    for match in TOKEN.finditer(formula):
        kind, text = match.lastgroup, match[0]
        if kind == "word" and not _is_word(text):
            found += re.findall(r"\w[\u0300-\u036f]*", text)
        elif kind == "sign" and unicodedata.combining(text) and found:
            found[-1] += text
        else:
            found.append(text)
    return found


def _is_word(text: str) -> bool:
    if any(letter in LOW or letter in HIGH for letter in text):
        return False
    return text in WORDS or (len(text) > 2 and text.isascii()) or "-" in text


def _scripted(rest: list[str]) -> str:
    """Take the next thing off the tokens, with all that stands low or high beside it."""
    base, low, high = _base(rest), "", ""
    while rest:
        if rest[0] in LOW:
            low += LOW[rest.pop(0)]
        elif rest[0] == "_" and len(rest) > 1:
            rest.pop(0)
            low += _run(rest)
            if len(rest) > 1 and rest[0] == "," and rest[1] in LOW:
                low += rest.pop(0)
        elif rest[0] in HIGH:
            high += _leaf(HIGH[rest.pop(0)])
        elif rest[0] == "^" and len(rest) > 1:
            rest.pop(0)
            high += _group(rest) if rest[0] == "(" else _scripted(rest)
        else:
            break
    below = f"<mrow>{''.join(map(_leaf, [low] if low.isalpha() else low))}</mrow>" if low else ""
    above = f"<mrow>{high}</mrow>" if high else ""
    if below and above:
        return f"<msubsup>{base}{below}{above}</msubsup>"
    return f"<msub>{base}{below}</msub>" if below else f"<msup>{base}{above}</msup>" if above else base


def _run(rest: list[str]) -> str:
    """Take the letters after an underscore."""
    text = ""
    while rest and re.fullmatch(r"\w+[\u0300-\u036f]*", rest[0]) and rest[0] not in LOW and rest[0] not in HIGH:
        text += rest.pop(0)
    return text


def _group(rest: list[str]) -> str:
    """Take what stands between brackets, without them."""
    rest.pop(0)
    inside, depth = [], 1
    while rest:
        token = rest.pop(0)
        depth += (token == "(") - (token == ")")
        if not depth:
            break
        inside.append(token)
    out = ""
    while inside:
        out += _scripted(inside)
    return out


def _base(rest: list[str]) -> str:
    token = rest.pop(0)
    if token == "√" and rest:
        return f"<msqrt>{_group(rest) if rest[0] == '(' else _scripted(rest)}</msqrt>"
    if token.isspace():
        return f'<mspace width="{0.25 if len(token) == 1 else 1.6}em"></mspace>'
    return _leaf(token)


def _leaf(token: str) -> str:
    text = escape(token)
    if token[0].isdigit() or token in "½¼":
        return f"<mn>{text}</mn>"
    if _is_word(token):
        return f"<mtext>{text}</mtext>"
    if token[0].isalpha() or token == "∞":
        upright = ' mathvariant="normal"' if token in ("Σ", "Π", "Γ", "Λ", "T", "E", "P") else ""
        return f"<mi{upright}>{text}</mi>"
    return f'<mo stretchy="false">{text}</mo>' if token in FENCES else f"<mo>{text}</mo>"
