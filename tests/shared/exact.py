"""The paper's scores in 60-digit arithmetic, for data that float64 finds hard."""

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def matrix(array):
    return array if isinstance(array, mp.matrix) else mp.matrix(np.atleast_2d(array).tolist())


def column(array):
    return array if isinstance(array, mp.matrix) else mp.matrix(np.asarray(array).tolist())


def posterior(records, mean, kappa, df, scale):
    mean, scale = column(mean), matrix(scale)
    n, p = len(records), len(mean)
    if n == 0:
        return mean, mp.mpf(kappa), mp.mpf(df), scale
    rows = [column(record) for record in records]
    xbar = sum(rows, mp.zeros(p, 1)) / n
    scatter = sum(((x - xbar) * (x - xbar).T for x in rows), mp.zeros(p, p))
    kappa_x = mp.mpf(kappa) + n
    shift = (xbar - mean) * (xbar - mean).T
    return (
        (kappa * mean + n * xbar) / kappa_x,
        kappa_x,
        mp.mpf(df) + n,
        scale + scatter + kappa * n / kappa_x * shift,
    )


def scores(candidates, others, release, prior):
    """The printed score at each candidate; `release` is (means, covariances) or a list of datasets."""
    mean, kappa, df, scale = posterior(others, *prior)
    p = len(mean)
    by_parameters = isinstance(release, tuple)
    if by_parameters:
        draws = [(column(m), matrix(s) ** -1) for m, s in zip(*release, strict=True)]
    else:
        sets = []
        for z in release:
            rows = [column(row) for row in z]
            zbar = sum(rows, mp.zeros(p, 1)) / len(rows)
            sets.append((len(rows), zbar, sum(((r - zbar) * (r - zbar).T for r in rows), mp.zeros(p, p))))
    inverse = scale**-1
    found = []
    for candidate in candidates:
        step = column(candidate) - mean
        mean_x, scale_x = mean + step / (kappa + 1), scale + kappa / (kappa + 1) * (step * step.T)
        t = (df + 1) * mp.log(1 + kappa / (kappa + 1) * (step.T * inverse * step)[0])
        if by_parameters:
            score = len(draws) * (df + 1) * mp.log(mp.det(scale_x))
            for mu, precision in draws:
                trace = sum((scale_x * precision)[i, i] for i in range(p))
                score -= trace + (kappa + 1) * ((mu - mean_x).T * precision * (mu - mean_x))[0]
        else:
            score = len(sets) * (df + 1) * mp.log(mp.det(scale_x))
            for rows, zbar, scatter in sets:
                weight = (kappa + 1) * rows / (kappa + 1 + rows)
                joint = scale_x + scatter + weight * ((zbar - mean_x) * (zbar - mean_x).T)
                score -= (df + 1 + rows) * mp.log(mp.det(joint))
        found.append(score - t)
    return np.array(found)


def mode_near(start, others, release, prior, steps=60):
    """Return the mode that Newton reaches from `start`, and minus the Hessian there; of half the printed score.

    s(x) = (m − 1)ν′·log(1 + c·q₀) − dᵀAd + 2bᵀd, or for datasets − Σⱼ (ν′ + n_z)·log(1 + hⱼ(x − rⱼ)ᵀBⱼ⁻¹(x − rⱼ))
    """
    mean, kappa, df, scale = posterior(others, *prior)
    c, p = kappa / (kappa + 1), len(mean)
    precision, pull = mp.zeros(p, p), mp.zeros(p, 1)
    count = len(release[0]) if isinstance(release, tuple) else len(release)
    wells = [(scale**-1, c, mean, -(count - 1) * (df + 1))]
    if isinstance(release, tuple):
        for mu, sigma in zip(*release, strict=True):
            inverse = matrix(sigma) ** -1
            precision, pull = precision + inverse, pull + inverse * column(mu)
    else:
        for z in release:
            r, k, _, joint = posterior(z, mean, kappa, df, scale)
            wells.append((joint**-1, k / (k + 1), r, df + 1 + len(z)))
    x = column(start)
    for _ in range(steps):
        gradient, bowl = pull - precision * x, precision.copy()
        for inverse, h, centre, weight in wells:
            slope = inverse * (x - centre)
            level = 1 + h * ((x - centre).T * slope)[0]
            gradient -= weight * h / level * slope
            bowl += weight * h / level * (inverse - 2 * h / level * slope * slope.T)
        step = mp.lu_solve(bowl, gradient)
        x += step
        if mp.norm(step) < mp.mpf(10) ** -40 * (1 + mp.norm(x)):
            break
    return x, bowl
