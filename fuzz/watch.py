"""One process that runs inputs under watch: its time, its memory, its files, and how each input ends."""

import os
import resource
import signal
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from allbutone.support.errors import InputError
from fuzz.targets import Target

MOST_SECONDS = 10.0  # of processor time for one input
PLACES = ("work", "home", "tmp", "elsewhere")
IN_MEMORY = Path("/dev/shm")  # a disk takes longer to remove an input's folders than most inputs take
MOST_MEMORY = 1 << 30  # bytes beyond those that the process began with


class TookTooLong(BaseException):
    """An input took longer than it may."""


@dataclass
class Tally:
    """What became of the inputs of a target."""

    name: str
    results: int = 0
    refused: int = 0
    faults: list[tuple[str, bytes]] = field(default_factory=list)
    seconds: float = 0.0
    grown: int = 0  # of the inputs: those that atheris made, whose ends are not told apart

    @property
    def inputs(self) -> int:
        """All that were run."""
        return self.results + self.refused + self.grown + len(self.faults)


def attempt(target: Target, data: bytes, tally: Tally, seconds: float = MOST_SECONDS) -> None:
    """Run one input and count how it ended: with a result, in words, or with a fault."""
    before = max(_most_memory(), _BEGUN)
    with fresh_place() as base:
        outside = Path(base)
        try:
            with confined(outside, seconds) as work:
                target.run(data, work)
            tally.results += 1
        except InputError:
            tally.refused += 1
        except (Exception, TookTooLong) as error:
            tally.faults.append((_where(error), data))
            return
        stray = [path for name in PLACES[1:] for path in (outside / name).iterdir()]
        stray += [path for path in outside.iterdir() if path.name not in PLACES]
        if stray:
            tally.faults.append((f"left {stray[0].relative_to(outside)}", data))
    if (grown := _most_memory()) > before + MOST_MEMORY:
        tally.faults.append((f"memory grew to {grown / 1e9:.1f} GB", data))


_BEGUN = 400 << 20  # what Python and all libraries take


def _most_memory() -> int:
    """Return the most bytes that this process has ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fresh_place() -> tempfile.TemporaryDirectory[str]:
    """Return a folder of its own for one input, in memory where there is such a disk."""
    return tempfile.TemporaryDirectory(prefix="fuzz-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None)


@contextmanager
def confined(base: Path, seconds: float = MOST_SECONDS) -> Iterator[Path]:
    """Yield a folder to work in; give others as home, for temporary files and to be in; and so many seconds."""
    for name in PLACES:
        (base / name).mkdir()

    def stop(number: int, frame: object) -> None:
        raise TookTooLong(f"more than {seconds:g} s")

    before = {name: os.environ.get(name) for name in ("HOME", "TMPDIR")}, os.getcwd(), tempfile.tempdir
    os.environ.update(HOME=str(base / "home"), TMPDIR=str(base / "tmp"))
    tempfile.tempdir = str(base / "tmp")
    os.chdir(base / "elsewhere")
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield base / PLACES[0]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        for name, value in before[0].items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        os.chdir(before[1])
        tempfile.tempdir = before[2]


def _where(error: BaseException) -> str:
    """Say what went wrong and in which line of the package: faults alike are one."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "allbutone" in frame.filename]
    place = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"
    return f"{type(error).__name__} in {place}: {str(error)[:160]!r}"
