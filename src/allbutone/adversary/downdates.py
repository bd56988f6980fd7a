"""The posterior of each record without that record: the whole table's model less a rank-one term."""

from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float

from allbutone.adversary.build import add_own_well, from_whitened, together
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.statistics import JoinedStatistics, Statistics
from allbutone.support.arrays import array_namespace, eye, solve_rows, zeros

Array = Any


@dataclass(frozen=True, eq=False)
class WholeTable:
    """What the attacks on all records share: the whole table's posterior and the release in its coordinates.

    `own`: the posterior of the adversary's own prior, if any. `fitted`: ℓ of one record more than the table has.
    """

    whole: NIW
    own: NIW | None
    root: Float[Array, "p p"]
    released: Statistics
    fitted: LogQuadratic

    @classmethod
    def of(cls, moments: Moments, release: Any, prior: NIW, own_prior: NIW | None) -> "WholeTable":
        """Fit the whole table once and bring the release into its coordinates."""
        whole, own = prior.update(moments), None if own_prior is None else own_prior.update(moments)
        root, released = release.whitened(whole)
        return cls(whole, own, root, released, from_whitened(whole, root, released))

    def without(self, targets: Float[Array, "b p"], white: Float[Array, "b p"]) -> LogQuadratic:
        """Return the posteriors of some records, given also in coordinates of the root, by rank-one downdates.

        Without x the model is NIW(μ₋, κ₋, ν − 1, Λ₋): κ₋ = κ − 1, μ₋ = μ − δ/κ₋, Λ₋ = Λ − (κ/κ₋)δδᵀ, δ = x − μ.
        In the table's coordinates Λ₋ = I − (κ/κ₋)uuᵀ, whose symmetric root is R = I + (√(1−l) − 1)·êêᵀ with
        l = (κ/κ₋)‖u‖² the hat value; μ₋ = −u/κ₋.
        """
        xp, p, kappa = array_namespace(white), self.whole.p, self.whole.mean_weight
        squared = xp.vecdot(white, white)
        shrink = xp.sqrt(1 - kappa / (kappa - 1) * squared) - 1
        unit = white / xp.sqrt(xp.where(squared > 0, squared, 1.0))[:, None]
        own = eye(p, like=white) + shrink[:, None, None] * (unit[:, :, None] * unit[:, None, :])
        shift = -white / (kappa - 1)
        nothing = LogQuadratic(
            centre=self.whole.mean - (targets - self.whole.mean) / (kappa - 1),
            root=self.root @ own,
            df=self.whole.df - 1,
            outward=-self.whole.df,
            inflation=(kappa - 1) / kappa,
            precision=zeros((p, p), like=white),
            pull=zeros(p, like=white),
            weights=zeros(0, like=white),
            levels=zeros(0, like=white),
            slopes=zeros((0, p), like=white),
            shapes=zeros((0, p, p), like=white),
        )

        def after(released: Statistics) -> LogQuadratic:
            if isinstance(released, JoinedStatistics):
                return together(after(released.parameters), after(released.datasets))
            if isinstance(released, Moments):
                return self._datasets(released, nothing, white, (shrink, unit), shift)
            moved = released.pull - (released.precision @ shift[..., None])[..., 0]
            turned = (own @ moved[..., None])[..., 0]
            outward = (released.draws - 1) * self.whole.df
            return replace(nothing, outward=outward, precision=own @ released.precision @ own, pull=turned)

        problem = after(self.released)
        return problem if self.own is None else self._with_own_prior(problem, targets)

    def _with_own_prior(self, problem: LogQuadratic, targets: Float[Array, "b p"]) -> LogQuadratic:
        """Add each adversary's own prior, downdated in its own coordinates.

        With u = C⁻¹(x − μ) and g = κ/(κ−1): Λ₋⁻¹ = C⁻ᵀ(I + g·uuᵀ/(1 − g‖u‖²))C⁻¹.
        """
        assert self.own is not None
        xp, kappa = array_namespace(targets), self.own.mean_weight
        ratio, step = kappa / (kappa - 1), targets - self.own.mean
        white = solve_rows(self.own.root, step)
        half = xp.linalg.solve(self.own.root, problem.root)
        turned = (half.mT @ white[..., None])[..., 0]
        left = 1 - ratio * xp.vecdot(white, white)
        shape = half.mT @ half
        shape = shape + (ratio / left)[:, None, None] * (turned[..., :, None] * turned[..., None, :])
        place = problem.whiten(self.own.mean - step / (kappa - 1))
        return add_own_well(problem, self.own.df - 1, shape / ratio, place)

    def _datasets(
        self,
        moments: Moments,
        nothing: LogQuadratic,
        white: Float[Array, "b p"],
        own: tuple[Float[Array, " b"], Float[Array, "b p"]],
        shift: Float[Array, "b p"],
    ) -> LogQuadratic:
        """Return the wells of each record, whose posterior without a release is `nothing`.

        With t = u − r, K = κ + n_z and G = K/(K−1): B₋ = B − G·ttᵀ and r₋ = r − t/(K−1), so that
        M = h·B₋⁻¹ = B⁻¹/G + nnᵀ/(1 − G·tᵀn), n = B⁻¹t. In the record's own coordinates, R = I + a·êêᵀ with
        `own` = (a, ê), it is RMR = M + êzᵀ + zêᵀ, z = a·Mê + ½a²(êᵀMê)·ê: three outer products, and no p³.
        """
        whole = self.fitted
        xp, p, k = array_namespace(white), self.whole.p, moments.count.shape[0]
        kappa, weight = self.whole.mean_weight, self.whole.mean_weight + moments.count
        ratio = weight / (weight - 1)
        inverse = whole.shapes * ((weight + 1) / weight)[:, None, None]
        location = (moments.count / weight)[:, None] * moments.mean
        stay = (inverse @ location[..., None])[..., 0]
        product = xp.reshape(white @ xp.reshape(inverse, (k * p, p)).T, (-1, k, p))
        away, normal = white[:, None, :] - location, product - stay
        left = (1 - ratio * xp.vecdot(away, normal))[..., None]
        (shrink, unit), length = own, xp.sqrt(xp.vecdot(white, white))
        shrink, axis = shrink[:, None, None], xp.broadcast_to(unit[:, None, :], normal.shape)
        met = product / xp.where(length > 0, length, 1.0)[:, None, None] / ratio[:, None]
        met = met + normal * xp.vecdot(normal, axis)[..., None] / left
        turned = shrink * met + 0.5 * shrink**2 * xp.vecdot(met, axis)[..., None] * axis
        columns = xp.stack([normal / left, axis, turned], axis=-1)
        shapes = inverse / ratio[:, None, None] + columns @ xp.stack([normal, turned, axis], axis=-2)
        # r₋ − μ₋, and h·B₋⁻¹ times it, without a matrix of their own: B⁻¹ has met every vector they are made of
        apart = location - away / (weight - 1)[:, None] - shift[:, None, :]
        slopes = (stay - normal / (weight - 1)[:, None] + product / (kappa - 1)) / ratio[:, None]
        slopes = slopes + normal * xp.vecdot(normal, apart)[..., None] / left
        return replace(
            nothing,
            outward=(k - 1) * self.whole.df,
            weights=self.whole.df + moments.count,
            levels=1 + xp.vecdot(apart, slopes),
            slopes=slopes + shrink * xp.vecdot(slopes, axis)[..., None] * axis,
            shapes=shapes,
        )


def remove_each(whole: NIW, records: Float[Array, "n p"]) -> NIW:
    """Return the posterior without each record in turn: κ₋ = κ−1, μ₋ = (κμ − x)/κ₋, Λ₋ = Λ − (κ/κ₋)δδᵀ."""
    step, left = records - whole.mean, whole.mean_weight - 1
    scale = whole.scale - (whole.mean_weight / left) * (step[:, :, None] * step[:, None, :])
    return NIW(whole.mean - step / left, left, whole.df - 1, scale)
