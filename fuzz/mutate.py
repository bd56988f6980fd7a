"""How valid inputs are spoiled: by their bytes, and by what they mean (keys, types, cells, sizes, nesting)."""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

# what stands in the place of a value: wrong types, sizes that cannot be meant, ends of number ranges, scripts;
# paths that nobody can write to, whoever runs this
TOKENS = (
    "", "0", "-1", "1e308", "-1e308", "1e-320", "1e400", "nan", "inf", "-inf", "NA", "null", "true", "[]", "{}",
    '""', "1000000000000000000", "-9223372036854775809", "18446744073709551616", "1e18", "0x10", "1_000", "0.1.2",
    "1,5", "'", '"', "\\", "\n", "\r", "\t", "\x00", "\x1b[31m", "é", "𝕏", "\u202e", "\ufeff", "٣", "=1+1",
    "../../x/y", "/proc/version", "~", "a" * 5000, "9" * 5000, "[" * 500, "2020-01-01", "12:30", "x1",
    "${HOME}", "%s%n", "<b>", "; rm",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**18, 10**400, 0.0, -0.0, 1e-320, 1e308,
    float("nan"), float("inf"), float("-inf"), "", "x1", "\x00", "a" * 5000, "../../x", "/proc/version", "NaN", [],
    {}, [[]], [None], {"": None}, [1, "a", None], ["x1", "x1"],
)  # fmt: skip
ENCODINGS = ("utf-16", "utf-32", "latin-1", "cp500", "utf-8-sig")


def spoil(data: bytes, kind: str, rng: random.Random) -> bytes:
    """Return the data after one to four changes, most of them of what it means."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        structured = STRUCTURED.get(kind)
        data = structured(data, rng) if structured and rng.random() < 0.7 else _spoil_bytes(data, rng)
    return data[: 1 << 20]


def _spoil_bytes(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return rng.randbytes(rng.choice((0, 1, 64)))
    at, to = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    piece = data[at:to]
    return rng.choice((
        lambda: data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :],
        lambda: data[:at] + bytes([data[min(at, len(data) - 1)] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
        lambda: data[:at],
        lambda: data[:at] + data[to:],
        lambda: data[:at] + piece[:1000] * rng.choice((2, 20)) + data[to:],
        lambda: data[:at] + b"\x00" * rng.choice((1, 8, 300)) + data[at:],
        lambda: data[:at] + rng.choice(TOKENS).encode() + data[at:],
        lambda: data[:at] + rng.randbytes(8) + data[min(at + 8, len(data)) :],
        lambda: data.decode("utf-8", "replace").encode(rng.choice(ENCODINGS), "replace"),
    ))()  # fmt: skip


def _spoil_csv(data: bytes, rng: random.Random) -> bytes:
    rows = [line.split(",") for line in data.decode("utf-8", "surrogateescape").split("\n")]
    row = rng.choice(rows)
    place = rng.randrange(len(row))
    match rng.randrange(9):
        case 0:
            row[place] = rng.choice(TOKENS)
        case 1:  # a column twice
            rows = [[*each, each[min(place, len(each) - 1)]] for each in rows]
        case 2:  # a column less
            rows = [each[:place] + each[place + 1 :] for each in rows]
        case 3:
            row.append(rng.choice(TOKENS))
        case 4:  # one value for a whole column
            token = rng.choice(TOKENS)
            rows = [rows[0], *([*each[:place], token, *each[place + 1 :]] for each in rows[1:])]
        case 5:
            rows[0] = [rng.choice(TOKENS) for _ in rows[0]] if rng.random() < 0.5 else rows[0][::-1]
        case 6:
            rows = rows[: rng.randrange(4)]
        case 7:
            rows = rows[:1] + rows[1:] * rng.choice((2, 40))
        case 8:
            text = rng.choice((";", "\t", "|", " ", "\x00")).join(",".join(each) + "\n" for each in rows)
            return text.encode("utf-8", "surrogateescape")
    return "\n".join(",".join(each) for each in rows).encode("utf-8", "surrogateescape")


def _spoil_json(data: bytes, rng: random.Random) -> bytes:
    try:
        content = json.loads(data)
        places = _places(content)
        if not places:
            return json.dumps(rng.choice(VALUES)).encode()
        holder, key = rng.choice(places)
        _change(holder, key, rng)
        return json.dumps(content).encode("utf-8", "surrogatepass")
    except (ValueError, OverflowError, RecursionError):  # no JSON, numbers beyond any, nested too deeply
        return _spoil_bytes(data, rng)


def _spoil_lines(data: bytes, rng: random.Random) -> bytes:
    """Change one line of a file with JSON on every line."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = _spoil_json(lines[at], rng).replace(b"\n", b"")
    return b"\n".join(lines)


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Return every place in nested lists and dictionaries, as what holds it and its key."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    return [place for key in keys for place in ((node, key), *_places(node[key]))]


def _change(holder: Any, key: Any, rng: random.Random) -> None:
    """Change one entry: its value, type, size or sign, its name, how deep it is."""
    value = holder[key]
    match rng.randrange(7):
        case 0 | 1:
            holder[key] = rng.choice(VALUES)
        case 2:
            del holder[key]
        case 3 if isinstance(holder, dict):
            name = rng.choice(("", "x", key.upper(), f"{key} ", rng.choice(list(holder))))
            holder[name] = holder.pop(key)
        case 4:
            for _ in range(rng.choice((1, 3, 200))):
                value = [value]
            holder[key] = value
        case 5 if isinstance(value, int | float) and not isinstance(value, bool):
            holder[key] = rng.choice((-value, value * 1e12, value + 1, str(value), 10**18, value / 1e200))
        case _:
            other = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
            holder[key], holder[other] = holder[other], holder[key]


def _spoil_toml(data: bytes, rng: random.Random) -> bytes:
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    at = rng.randrange(len(lines))
    match rng.randrange(8):
        case 0 | 1 | 2:
            name, equals, _ = lines[at].partition("=")
            value = rng.choice((*TOKENS, *(json.dumps(each)[:6000] for each in VALUES)))
            lines[at] = f"{name}= {value}" if equals else value
        case 3:
            del lines[at]
        case 4:
            lines.insert(rng.randrange(len(lines)), lines[at])
        case 5:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case 6:
            lines[at] = re.sub(r"[-+]?\d+(\.\d+)?", rng.choice(("-1", "1e18", "10" * 200, "0", "nan")), lines[at])
        case 7:
            deep = "[" * 300 + "]" * 300
            lines[at] = rng.choice(("[", "[[", "[a.b.c]", f"x = {deep}", "x = {" * 100, "#" * 9999))
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _spoil_words(data: bytes, rng: random.Random) -> bytes:
    """Change a command line or an address: words are kept apart by zero bytes."""
    words = data.decode("utf-8", "surrogateescape").split("\x00")
    at = rng.randrange(len(words))
    match rng.randrange(5):
        case 0 | 1:
            words[at] = rng.choice(TOKENS).replace("\x00", "0")
        case 2:
            del words[at]
        case 3:
            words.insert(at, rng.choice(words or [""]))
        case 4:
            name, equals, _ = words[at].partition("=")
            words[at] = f"{name}{equals}{rng.choice(TOKENS)}".replace("\x00", "0")
    return "\x00".join(words).encode("utf-8", "surrogateescape")


STRUCTURED: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "csv": _spoil_csv,
    "json": _spoil_json,
    "lines": _spoil_lines,
    "toml": _spoil_toml,
    "words": _spoil_words,
}


def one_of(seeds: Sequence[bytes], kind: str, rng: random.Random) -> bytes:
    """Return a seed, or now and then two halves of different ones, spoiled."""
    seed = rng.choice(seeds)
    if kind == "words" and rng.random() < 0.5:  # an option of another command, a field of another page
        words, other = seed.split(b"\x00"), rng.choice(seeds).split(b"\x00")
        at, of = rng.randrange(1, len(words) + 1), rng.randrange(len(other))
        seed = b"\x00".join([*words[:at], *other[of : of + 2], *words[at:]])
    elif rng.random() < 0.1:
        other = rng.choice(seeds)
        seed = seed[: rng.randrange(len(seed) + 1)] + other[rng.randrange(len(other) + 1) :]
    return spoil(seed, kind, rng)
