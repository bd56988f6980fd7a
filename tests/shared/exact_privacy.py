"""The privacy loss of a parameter draw in 60-digit arithmetic: log δ(ε) by one integral."""

import mpmath as mp

mp.mp.dps = 60


def log_gamma(z):
    """Of mpmath's, but on the right half plane alone, so that its branch is never in doubt."""
    left = mp.mpf(0)
    while mp.re(z) < 5:
        left, z = left - mp.log(z), z + 1
    return mp.loggamma(z) + left


def cumulants(p, kappa, df, augmented):
    """K(a) = G(a) − a·G(1) − (1 − a)·G(0), where Z(a), the mean of the density's a-th power, is exp G(a)."""
    kappa, df, augmented = mp.mpf(kappa), mp.mpf(df), mp.mpf(augmented)

    def of_power(a):
        found = sum(log_gamma((df + a - i) / 2) for i in range(p))
        return found + (df + a - p) / 2 * mp.log(1 + a / kappa) - (df + a) / 2 * mp.log(1 + a * augmented)

    none, one = of_power(mp.mpf(0)), of_power(mp.mpf(1))
    return lambda a: of_power(a) - a * one - (1 - a) * none


def mean_loss(p, kappa, df, augmented):
    """K′(1): the information gained at the truth, on average."""
    return mp.diff(cumulants(p, kappa, df, augmented), 1, h=mp.mpf(10) ** -20)


def log_delta(level, p, kappa, df, augmented, count, reverse):
    """log of (1/2πi) ∫ exp(count·K(s) − (s − 1)ε)/(s(s − 1)) ds, with b = s − 1; in reverse K(1 − s) = K(−b).

    On a hyperbola through the saddle: in reverse it leans to the right, where exp(−bε) falls.
    """
    of = cumulants(p, kappa, df, augmented)
    end = min(1 / mp.mpf(augmented), mp.mpf(df) - p + 1) if reverse else mp.mpf(10) ** 9

    def log_integrand(b):
        return count * of(-b if reverse else 1 + b) - b * level - mp.log((1 + b) * b)

    c = _lowest(lambda b: mp.re(log_integrand(b)), end)
    if c is None:  # it falls to the end: nothing is left at all
        return -mp.inf
    h, top = c * mp.mpf(10) ** -8 * min(1, (end - c) / c), mp.re(log_integrand(c))
    width = 1 / mp.sqrt(mp.re(log_integrand(c + h) + log_integrand(c - h) - 2 * log_integrand(c)) / h**2)
    lean = mp.pi / 5 if reverse else mp.mpf(0)
    total, x, step = mp.mpf(0), mp.mpf(0), mp.mpf(1) / 16
    while x < 60:
        b = c + width * (mp.sin(lean) * (mp.cosh(x) - 1) + mp.j * mp.cos(lean) * mp.sinh(x))
        term = mp.exp(log_integrand(b) - top) * (mp.cos(lean) * mp.cosh(x) - mp.j * mp.sin(lean) * mp.sinh(x))
        total += mp.re(term) * (1 if x else mp.mpf(1) / 2)
        if abs(term) < mp.mpf(10) ** -30:
            return mp.log(total * step * width / mp.pi) + top if total > 0 else -mp.inf
        x += step
    raise AssertionError("the integrand does not end")


def relative_error(level, delta, *loss):
    """By how much an ε, the larger of both directions, misses the one at which δ(ε) = delta."""
    level, more = mp.mpf(level), mp.mpf(level) * (1 + mp.mpf(10) ** -9)
    found = max((log_delta(level, *loss, reverse), reverse) for reverse in (False, True))
    slope = (log_delta(more, *loss, found[1]) - found[0]) / (more - level)
    return float(abs((mp.log(mp.mpf(delta)) - found[0]) / slope / level))


def _lowest(function, end):
    """Golden section for the minimum between 0 and end, in the logarithm of b/(1 − b/end)."""

    def place(x):
        return 1 / (mp.exp(-x) + 1 / end)

    low, high, ratio = mp.log(end) - 150, mp.log(end) + 60, (mp.sqrt(5) - 1) / 2
    while high - low > mp.mpf(10) ** -4:
        one, two = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, two) if function(place(one)) < function(place(two)) else (one, high)
    return place(low) if low < mp.log(end) + 50 else None
