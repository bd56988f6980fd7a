"""Releases drawn as the adversary sees them: sufficient statistics only, where leverage is all there is.

Whitened by the adversary's own Λ and turned so that the record lies on the last axis, the model given the others
is NIW(0, κ, ν, I) and the record √(q/c)·e_p. The model that the release is drawn from is NIW(l, κ′, ν′, D²), with
l = √(q/c)·e_p/κ′ and D = diag(1, …, 1, √(1 + q)): of the record only the leverage q is left.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.simulated_datasets import SimulatedDatasets
from allbutone.support.arrays import append_axes, array_namespace, as_array, contiguous, eye, zeros
from allbutone.support.streams import Stream, Triangle, normals, triangle

Array = Any

AT_ONCE = 1 << 20  # numbers in the wells that are held at a time: what a processor keeps close


def releases_at_once(law: ExposureLaw, count: int) -> int:
    """Return how many releases to draw and attack at a time."""
    return max(1, AT_ONCE // ((1 if law.rows is None else count) * law.p**2))


@dataclass(frozen=True, eq=False)
class SimulatedReleases:
    """The random part of some releases of `count` draws or datasets, the same for a record of any leverage.

    Released parameters need one lower triangle P and one standard normal ε for all draws of a replicate; datasets
    one part each. The last axis runs over the replicates, and within each over its datasets.
    After several laws, drawn from as many streams, the law's numbers (and a count of draws) are one a replicate.
    """

    law: ExposureLaw
    count: Any
    replicates: int
    parameters: "tuple[Triangle, Float[Array, 'p r']] | None"
    datasets: SimulatedDatasets | None

    @classmethod
    def of(cls, law: ExposureLaw, count: Any, replicates: int, rng: Stream) -> "SimulatedReleases":
        """Draw sufficient statistics, not records.

        Released parameters are seen only through A ~ W(n_θν′, D⁻²) and b | A ~ N(Al, A/κ′): one Wishart and one
        normal draw replace n_θ of each. `law` may hold several laws' numbers (and `count` those of draws), where
        `rng` is as many streams: then there are so many replicates of each.
        """
        parameters = datasets = None
        if law.rows is None:
            df = append_axes(count, 1) * append_axes(law.df + 1, 1) - np.arange(float(law.p))[::-1]
            parameters = triangle(rng, df, replicates), normals(rng, (law.p, replicates), axis=1)
            like = parameters[1]
        else:
            datasets = SimulatedDatasets.of(law, replicates * count, rng)
            like = datasets.mean

        def each(number: Any) -> Any:
            several = isinstance(number, np.ndarray)
            return as_array(np.repeat(1.0 * number, replicates), like=like) if several else number

        numbers = {name: each(getattr(law, name)) for name in ("mean_weight", "df", "rows")}
        every = like.shape[1] // (1 if law.rows is None else count)
        return cls(replace(law, **numbers), each(count), every, parameters, datasets)

    def problem(self, leverage: Any) -> tuple[LogQuadratic, Float[Array, "r p"]]:
        """Return the posteriors of records of this leverage (one for all, or one a replicate), and the records."""
        like = self.parameters[1] if self.datasets is None else self.datasets.mean  # type: ignore[index]
        xp, p, kappa = array_namespace(like), self.law.p, self.law.mean_weight
        leverage = xp.astype(as_array(leverage, like=like), xp.float64, copy=False)
        leverage = xp.broadcast_to(leverage, (self.replicates,))
        truth = zeros((self.replicates, p), like=like)
        truth[:, -1] = xp.sqrt(leverage * (kappa + 1) / kappa)
        whole = self._after_parameters if self.datasets is None else self._after_datasets
        return whole(leverage, truth[:, -1] / (kappa + 1)), truth

    def _after_parameters(self, leverage: Float[Array, " r"], lean: Float[Array, " r"]) -> LogQuadratic:
        """Return the quadratic of A = CCᵀ, C = D⁻¹Pᵀ, where PᵀP ~ W(n_θν′, I), and b = Al + Cε/√κ′."""
        assert self.parameters is not None
        precision, noise = self.parameters
        xp, p, kappa = array_namespace(noise), self.law.p, self.law.mean_weight
        root = contiguous(xp.permute_dims(precision, (2, 1, 0)))
        root[:, -1, -1] /= xp.sqrt(1 + leverage)
        pushed = root[:, -1, :] * lean[:, None] + noise.T / append_axes((kappa + 1) ** 0.5, 1)
        return self._posteriors(
            precision=root @ xp.matrix_transpose(root),
            pull=(root @ pushed[..., None])[..., 0],
            weights=zeros(0, like=root),
            levels=zeros(0, like=root),
            slopes=zeros((0, p), like=root),
            shapes=zeros((0, p, p), like=root),
        )

    def _after_datasets(self, leverage: Float[Array, " r"], lean: Float[Array, " r"]) -> LogQuadratic:
        """Return the wells hⱼ(x − rⱼ)ᵀBⱼ⁻¹(x − rⱼ), all datasets at once; rⱼ = n_z·z̄ⱼ/(κ + n_z)."""
        assert self.datasets is not None
        count, kappa, rows = self.count, self.law.mean_weight, self.law.rows
        assert rows is not None
        weight, each = kappa + rows, self._each_dataset
        spread, eta = each((1 / (kappa + 1) + 1 / rows) ** 0.5), each(kappa * rows / weight)
        height, share = each(1 - 1 / (weight + 1)), each(rows / weight)
        inverse, image, square = self.datasets.wells(each(leverage), each(lean), spread, eta, height)
        xp, p, batch = array_namespace(image), self.law.p, (self.replicates, count)
        return self._posteriors(
            precision=zeros((p, p), like=image),
            pull=zeros(p, like=image),
            weights=zeros(count, like=image) + append_axes(self.law.df + 1 + rows, 1),
            levels=xp.reshape(1 + share**2 * square, batch),
            slopes=xp.reshape(append_axes(share, 1) * image, (*batch, p)),
            shapes=xp.reshape(inverse, (*batch, p, p)),
        )

    def _posteriors(self, **terms: Any) -> LogQuadratic:
        """Return the posteriors of these terms, in the coordinates of the other records."""
        p, kappa, df, like = self.law.p, self.law.mean_weight, self.law.df, terms["pull"]
        return LogQuadratic(
            centre=zeros((self.replicates, p), like=like),
            root=eye(p, like=like),
            df=df,
            outward=(self.count - 1) * (df + 1),
            inflation=kappa / (kappa + 1),
            **terms,
        )

    def _each_dataset(self, numbers: Any) -> Any:
        """Return numbers, where there is one a replicate, as one a dataset."""
        return array_namespace(numbers).repeat(numbers, self.count) if getattr(numbers, "ndim", 0) else numbers
