"""The paper's formulas written out literally: the oracle. It imports nothing from the package.

Labels are those of the paper. Two slips are settled here: the inverse-Wishart's scale is Λ, not Λ⁻¹, and p(Z|X')
needs π where the paper prints 2π.
"""

from math import lgamma, log, pi

import numpy as np


def log_det(matrix):
    sign, value = np.linalg.slogdet(matrix)
    assert sign > 0
    return value


def log_multigamma(p, a):
    return p * (p - 1) / 4 * log(pi) + sum(lgamma(a + (1 - j) / 2) for j in range(1, p + 1))


def posterior(records, mean, mean_weight, df, scale):
    """eq:bay_updates1 to 4; returns (mean, mean_weight, df, scale)."""
    n = len(records)
    if n == 0:
        return mean, mean_weight, df, scale
    xbar = sum(records) / n
    scatter = sum(np.outer(x - xbar, x - xbar) for x in records)
    shift = np.outer(xbar - mean, xbar - mean)
    return (
        mean_weight / (mean_weight + n) * mean + n / (mean_weight + n) * xbar,
        mean_weight + n,
        df + n,
        scale + scatter + mean_weight * n / (mean_weight + n) * shift,
    )


def log_student_t(x, location, scale, df):
    """eq:post_t_dd."""
    p = len(location)
    squared = (x - location) @ np.linalg.inv(scale) @ (x - location)
    return (
        lgamma((df + p) / 2)
        - lgamma(df / 2)
        - p / 2 * log(df * pi)
        - log_det(scale) / 2
        - (df + p) / 2 * log(1 + squared / df)
    )


def predictive(mean, mean_weight, df, scale):
    """eq:z_follow_t_dist; returns (location, scale, df) of the Student t."""
    p = len(mean)
    return mean, (mean_weight + 1) / (mean_weight * (df - p + 1)) * scale, df - p + 1


def log_niw(mu, sigma, mean, mean_weight, df, scale):
    """The density of section 2.2, with Λ as the scale matrix."""
    p = len(mean)
    inverse = np.linalg.inv(sigma)
    normal = -p / 2 * log(2 * pi) - log_det(sigma / mean_weight) / 2
    normal -= mean_weight / 2 * (mu - mean) @ inverse @ (mu - mean)
    wishart = df / 2 * log_det(scale) - df * p / 2 * log(2) - log_multigamma(p, df / 2)
    wishart -= (df + p + 1) / 2 * log_det(sigma) + np.trace(scale @ inverse) / 2
    return normal + wishart


def log_evidence(records, mean, mean_weight, df, scale):
    """eq:post_closed with π for 2π."""
    p, n = len(mean), len(records)
    _, mean_weight_z, df_z, scale_z = posterior(records, mean, mean_weight, df, scale)
    return (
        -n * p / 2 * log(pi)
        + p / 2 * log(mean_weight / mean_weight_z)
        + df / 2 * log_det(scale)
        - df_z / 2 * log_det(scale_z)
        + log_multigamma(p, df_z / 2)
        - log_multigamma(p, df / 2)
    )


def score_parameters(candidate, others, means, covariances, prior):
    """The score of Algorithm 2."""
    mean, kappa, df, scale = posterior(others, *prior)
    p, step = len(mean), candidate - mean
    kappa_x, df_x = kappa + 1, df + 1
    mean_x, scale_x = mean + step / kappa_x, scale + kappa / kappa_x * np.outer(step, step)
    score = len(means) * df_x * log_det(scale_x)
    for mu, sigma in zip(means, covariances, strict=True):
        inverse = np.linalg.inv(sigma)
        score -= np.trace(scale_x @ inverse) + kappa_x * (mu - mean_x) @ inverse @ (mu - mean_x)
    return score - _t_term(step, p, kappa, df, scale)


def score_datasets(candidate, others, datasets, prior):
    """The score of Algorithm 3."""
    mean, kappa, df, scale = posterior(others, *prior)
    p, step = len(mean), candidate - mean
    kappa_x, df_x = kappa + 1, df + 1
    mean_x, scale_x = mean + step / kappa_x, scale + kappa / kappa_x * np.outer(step, step)
    score = len(datasets) * df_x * log_det(scale_x)
    for z in datasets:
        zbar, n_z = z.mean(axis=0), len(z)
        scale_xz = scale_x + (z - zbar).T @ (z - zbar)
        scale_xz = scale_xz + kappa_x * n_z / (kappa_x + n_z) * np.outer(zbar - mean_x, zbar - mean_x)
        score -= (df_x + n_z) * log_det(scale_xz)
    return score - _t_term(step, p, kappa, df, scale)


def _t_term(step, p, kappa, df, scale):
    delta = df - p + 1
    v = (kappa + 1) / (kappa * delta) * scale
    return (delta + p) * log(1 + step @ np.linalg.inv(v) @ step / delta)
