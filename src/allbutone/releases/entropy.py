"""Where the randomness of a release comes from: the operating system, or a repeat key of at least 128 bits.

Whoever knows the random numbers behind a release can take them away, and what is left are the confidential
table's own mean and covariance; with every other record in hand, the missing one follows to the last digit. A seed
of a few digits is therefore as good as the table itself: the adversary tries all of them, and recognises the right
one by a residual of zero. What a person makes up can be guessed; what the operating system makes cannot.
"""

import hashlib
import json
import secrets
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from allbutone.model.niw import NIW
from allbutone.model.prior_file import prior_entries
from allbutone.support.errors import InputError

KEY_DIGITS = 32  # hexadecimal: 128 bits
FEWEST_DISTINCT = 7  # a random key has fewer distinct digits, or steps between digits, once in 10⁹


def fresh_generator() -> np.random.Generator:
    """Return a generator started with 128 bits of the operating system's entropy, which nobody can repeat."""
    return np.random.default_rng()


def new_repeat_key() -> str:
    """Return a repeat key of 128 bits from the operating system: to be shown once and stored nowhere by us.

    >>> import allbutone as abo
    >>> len(abo.new_repeat_key())
    32
    """
    while _made_up(key := secrets.token_hex(KEY_DIGITS // 2)):
        pass
    return key


def keyed_generator(
    repeat_key: Any, kind: str, sizes: Sequence[int], columns: Sequence[str], *models: Any
) -> np.random.Generator:
    """Return the generator that a repeat key stands for, for this one release and no other.

    The key alone is not the seed. If it were, two releases under one key would share their noise, and comparing
    them would take it away: for a table before and after one record was corrected, that shows the record. So the
    seed is a keyed hash, under the key, of all that decides the release: its kind and sizes, the columns, the
    models (the prior, and the posterior, which stands for the table), the versions of this package and of NumPy.
    The same release is repeated bit by bit; anything else gets unrelated noise. Without the key the hash tells
    nothing.
    """
    secret = bytes.fromhex(_checked_key(repeat_key))
    versions = [version("allbutone"), np.__version__]
    entries = [prior_entries(model) if isinstance(model, NIW) else model for model in models]
    decides = json.dumps([versions, kind, list(map(int, sizes)), list(columns), entries]).encode()
    # blake2b takes a key of up to 64 bytes; a longer one is hashed first
    short = secret if len(secret) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(secret).digest()
    digest = hashlib.blake2b(decides, key=short, digest_size=32, person=b"allbutone").digest()
    return np.random.default_rng(np.random.SeedSequence(int.from_bytes(digest), pool_size=8))


def _checked_key(text: Any) -> str:
    """Return the key's digits, or say what is wrong with it without repeating it: it is a secret."""
    cures = (
        "let allbutone make one (--new-repeat-key; in Python new_repeat_key())",
        "leave it out: then nobody can repeat the release",
    )
    key = text.strip().lower() if isinstance(text, str) else ""
    if len(key) < KEY_DIGITS or len(key) % 2 or not set(key) <= set("0123456789abcdef"):
        raise InputError(
            f"a repeat key has {KEY_DIGITS} hexadecimal digits, or more in pairs: a shorter one can be guessed",
            *cures,
        )
    if _made_up(key):
        raise InputError("this repeat key follows a pattern, so that it can be guessed", *cures)
    return key


def _made_up(key: str) -> bool:
    """Say whether a key evidently comes from a person: few digits, a repeated part, counting, or words."""
    data = bytes.fromhex(key)
    digits = np.array([int(digit, 16) for digit in key])
    few = [len(set(key)), len(set(np.diff(digits) % 16)), len(set(np.diff(np.frombuffer(data, np.uint8))))]
    repeated = key in (key + key)[1:-1]
    return min(few) < FEWEST_DISTINCT or repeated or (data.isascii() and data.decode().isprintable())
