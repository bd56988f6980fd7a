"""The posterior of each record without that record: the whole table's model less a rank-one term."""

from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float

from allbutone.adversary.build import add_own_well, from_whitened, together
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.wells import in_layout, stretched
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.statistics import JoinedStatistics, Statistics
from allbutone.support.arrays import array_namespace, contiguous, eye, solve_rows, zeros

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
                return self._datasets(released, nothing, white, (shrink, unit, own))
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
        own: tuple[Float[Array, " b"], Float[Array, "b p"], Float[Array, "b p p"]],
    ) -> LogQuadratic:
        """Return the wells of each record, whose posterior without a release is `nothing`.

        With t = u − r, K = κ + n_z and G = K/(K−1): B₋ = B − G·ttᵀ and r₋ = r − t/(K−1), so that
        M = h·B₋⁻¹ = B⁻¹/G + nnᵀ/l, n = B⁻¹t, l = 1 − G·tᵀn. From the others' centre it is e = r₋ − μ₋ = Gr + cu,
        c = 1/(κ−1) − 1/(K−1), and m = Me = B⁻¹r + (c/G)·B⁻¹u + (nᵀe/l)·n = (1 + c/G)·B⁻¹r + (c/G + nᵀe/l)·n.
        In the record's own coordinates, with `own` = (a, ê, R), they are RMR and Rm. Numbers come of uᵀB⁻¹u,
        uᵀB⁻¹r and rᵀB⁻¹r, which are at most 1, so that nothing is lost in their differences.
        """
        # vectors are (b, p, k) here: all is done along the wells
        xp, p, k = array_namespace(white), self.whole.p, moments.count.shape[0]
        kappa, weight = self.whole.mean_weight, self.whole.mean_weight + moments.count
        ratio = weight / (weight - 1)
        inverse = contiguous(xp.moveaxis(self.fitted.shapes, 0, -1)) * ((weight + 1) / weight)
        location = (moments.count / weight) * moments.mean.T
        stay = xp.sum(inverse * location, axis=1)
        product = xp.reshape(white @ xp.reshape(inverse, (p, p * k)), (-1, p, k))
        uu, ur, rr = (white[:, None, :] @ product)[:, 0, :], white @ stay, xp.sum(location * stay, axis=0)
        left = 1 - ratio * (uu - 2 * ur + rr)
        moved = moments.count / ((kappa - 1) * (weight - 1))
        met = ratio * (ur - rr) + moved * (uu - ur)
        share = met / left
        normal, stay = own[-1] @ (product - stay), own[-1] @ stay
        slopes = (moved / ratio + share)[:, None, :] * normal + (1 + moved / ratio) * stay
        return replace(
            nothing,
            outward=(k - 1) * self.whole.df,
            weights=self.whole.df + moments.count,
            levels=1 + ratio * rr + moved * (2 * ur + (moved / ratio) * uu) + share * met,
            slopes=in_layout(slopes),
            shapes=stretched(inverse / ratio, own, normal, left[:, None, :]),
        )


def remove_each(whole: NIW, records: Float[Array, "n p"]) -> NIW:
    """Return the posterior without each record in turn: κ₋ = κ−1, μ₋ = (κμ − x)/κ₋, Λ₋ = Λ − (κ/κ₋)δδᵀ."""
    step, left = records - whole.mean, whole.mean_weight - 1
    scale = whole.scale - (whole.mean_weight / left) * (step[:, :, None] * step[:, None, :])
    return NIW(whole.mean - step / left, left, whole.df - 1, scale)
