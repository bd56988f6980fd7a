"""Graphics cards: named, checked, and random numbers drawn on them in as many streams as are needed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from jaxtyping import Float

from allbutone.support.arrays import array_namespace, to_numpy, zeros
from allbutone.support.errors import Cure, InputError

# Whatever is computed on a device is computed by the same code as on the processor, from tensors instead of
# NumPy's arrays; only the drawing of random numbers has to know where it is.


Array = Any

HERE = "cpu"  # the processor, by NumPy
BLOCK_BYTES = 4 << 30  # that each of its threads works with at a time, copies included
NUMBERS_HELD = 1 << 27  # numbers held at a time: 1 GB, and several times that while something is made of them
THREADS = 4  # that attack blocks of records on a device: some copy their results while others keep it busy

_LOADING = Lock()


@cache
def device_of(name: str) -> Any:
    """Return PyTorch's device of this name ("cuda", "cuda:1"), None for "cpu"; refuse one that is not there."""
    if name == HERE:
        return None
    here = Cure("compute on the processor", "device", HERE)
    if name.partition(":")[0] != "cuda":
        raise InputError(f"device must be cpu or cuda (a second card is cuda:1), got {name}", here)
    try:
        import torch
    except ImportError as error:
        raise InputError(
            "a graphics card is used through PyTorch, which is not installed",
            "install it: pip install 'allbutone[torch]'",
            here,
        ) from error
    if not torch.cuda.is_available():
        raise InputError(
            f"PyTorch {torch.__version__} finds no graphics card that it can use",
            "install the NVIDIA driver and a PyTorch for CUDA",
            here,
        )
    try:
        device = torch.device(name)
        torch.cuda.get_device_properties(device)
    except (RuntimeError, AssertionError) as error:
        cards = torch.cuda.device_count()
        raise InputError(f"there is no device {name}: the last is cuda:{cards - 1}", here) from error
    _load_linear_algebra(torch, device)
    return device


def _load_linear_algebra(torch: Any, device: Any) -> None:
    """Let PyTorch load the card's linear algebra, which it does at first use and not for two threads at once."""
    with _LOADING:
        some = torch.eye(2, dtype=torch.float64, device=device)
        for use in (torch.linalg.inv, torch.linalg.cholesky, torch.linalg.eigh, torch.linalg.qr):
            use(some)
        torch.cuda.synchronize(device)


def in_numpy(value: Any) -> Any:
    """Return an array, or a frozen value that holds some, as NumPy's from whatever device they are on."""
    if is_array_api_obj(value):
        return to_numpy(value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    arrays = {each.name: getattr(value, each.name) for each in fields(value)}
    if not any(is_array_api_obj(each) and not isinstance(each, np.ndarray) for each in arrays.values()):
        return value
    return replace(value, **{name: in_numpy(each) for name, each in arrays.items()})


def more_at_once(numbers: int, *, like: Array) -> int:
    """Return how many numbers to hold at a time where `like` is: here so many, on a device as many as it likes."""
    return numbers if isinstance(like, np.ndarray) else max(numbers, NUMBERS_HELD)


@contextmanager
def own_queue(device: Any) -> Iterator[None]:
    """Give this thread a queue of its own on the device, if there is one: while one waits, others keep it busy."""
    if device is None or device.type != "cuda":  # here, or PyTorch on the processor, in the tests
        yield
        return
    import torch

    with torch.cuda.stream(torch.cuda.Stream(device)):
        yield


def moved_to(device: Any, value: Any) -> Any:
    """Return an array of NumPy's, or a frozen value that holds some, on a device of PyTorch's; None: as it is."""
    if device is None:
        return value
    if isinstance(value, np.ndarray):
        import torch

        return torch.as_tensor(value if value.flags.writeable else value.copy(), device=device)
    if isinstance(value, tuple):
        return tuple(moved_to(device, each) for each in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{each.name: moved_to(device, getattr(value, each.name)) for each in fields(value)})


class DeviceStreams:
    """Streams of random numbers on a device, one a seed; what they draw comes one after the other.

    The numbers of a stream depend on its seed, on what is asked of it and on the model of the card, nothing else.
    """

    def __init__(self, seeds: Sequence[np.random.SeedSequence], device: Any) -> None:
        import torch

        self.torch: Any = torch
        self.device: Any = device
        self.generators: list[Any] = [torch.Generator(device) for _ in seeds]
        for generator, seed in zip(self.generators, seeds, strict=True):
            generator.manual_seed(int(seed.generate_state(1, np.uint64)[0]) >> 1)

    def normals(self, shape: tuple[int, ...], axis: int) -> Array:
        """Draw standard normal numbers of this shape from each stream, joined along the axis."""
        drawn = self.torch.empty((len(self.generators), *shape), dtype=self.torch.float64, device=self.device)
        for each, generator in zip(drawn, self.generators, strict=True):
            each.normal_(generator=generator)
        return drawn.movedim(0, axis).flatten(axis, axis + 1)

    def chi_squares(self, df: Float[np.ndarray, "streams rows"], size: int) -> Float[Array, "rows m"]:
        """Draw from χ²(df), as `streams.chi_squares` does, joined along the last axis; χ²(df) is 2·Gamma(df/2)."""
        half = moved_to(self.device, np.maximum(df, 1.0) / 2)[..., None].expand(-1, -1, size)
        drawn = [self.torch._standard_gamma(*each) for each in zip(half, self.generators, strict=True)]
        twice = moved_to(self.device, 2.0 * (df > 0))[..., None]
        return self.torch.stack(drawn).mul_(twice).movedim(0, 1).flatten(1, 2)


def require_processor(device: str, what: str) -> None:
    """Refuse a device for what only the processor can do."""
    if device != HERE:
        raise InputError(
            f"{what} is computed on the processor alone", Cure("leave out the device", "device", HERE)
        )


# Random numbers from one generator of NumPy's, or from several streams on a device; batches are last axes.


Stream = Any  # np.random.Generator, or several streams on a device (support.devices)
Triangle = Float[Array, "p p m"]


def normals(rng: Stream, shape: tuple[int, ...], axis: int) -> Array:
    """Draw standard normal numbers; those of several streams one after the other along the axis."""
    if isinstance(rng, np.random.Generator):
        return rng.standard_normal(shape)
    return rng.normals(shape, axis)


def chi_squares(rng: Stream, df: Float[np.ndarray, "*streams rows"], size: int) -> Float[Array, "rows m"]:
    """Draw so many numbers from each χ²(df), zeros where df is not positive; streams have a row of df each."""
    if not isinstance(rng, np.random.Generator):
        return rng.chi_squares(df, size)
    drawn = np.empty((len(df), size))
    for row, degrees in zip(drawn, df, strict=True):
        if degrees > 0:
            rng.standard_gamma(degrees / 2, out=row)
        else:
            row[:] = 0
    drawn *= 2
    return drawn


def triangle(rng: Stream, df: Float[np.ndarray, "*streams p"], size: int) -> Triangle:
    """Draw lower triangles T by Bartlett: χ(dfᵢ) on the diagonal, standard normal below it.

    TTᵀ ~ W(m, I) if dfᵢ = m − i, TᵀT if dfᵢ = m − p + 1 + i, i from 0.
    """
    p = df.shape[-1]
    below, chi = normals(rng, (p * (p - 1) // 2, size), axis=1), chi_squares(rng, df, size)
    triangle = zeros((p, p, chi.shape[1]), like=chi)
    for row in range(p):
        triangle[row, :row, :] = below[row * (row - 1) // 2 : row * (row + 1) // 2, :]
        triangle[row, row, :] = array_namespace(chi).sqrt(chi[row, :])
    return triangle
