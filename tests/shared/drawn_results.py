"""Results to draw figures of, and all the figures of them."""

import dataclasses

import numpy as np

import allbutone as abo
from allbutone.disclosure.risk import risk_columns
from allbutone.figures import application as figures_violins
from allbutone.figures import fidelity as figures_fidelity
from allbutone.figures import fidelity as figures_tests
from allbutone.figures import shapes as figures_shapes
from allbutone.utility.fidelity import fidelity
from allbutone.utility.normality import check_normality
from allbutone.utility.shapes import densities

HOSTILE = ("<script>alert(1)</script>", 'a<b> & "%{x}" &amp;', "=" * 60, "two\nlines", "x")


@dataclasses.dataclass
class Results:
    fidelity: object
    densities: object
    normality: object
    by_count: dict

    def figures(self):
        return {
            "correlations": figures_fidelity.correlation_figure(self.fidelity),
            "differences": figures_fidelity.correlation_difference_figure(self.fidelity),
            "means": figures_fidelity.mean_difference_figure(self.fidelity),
            "ks": figures_tests.ks_figure(self.fidelity),
            "propensity": figures_tests.propensity_figure(self.fidelity),
            "densities": figures_shapes.density_figure(self.densities),
            "qq": figures_shapes.qq_figure(self.normality),
            "distances": figures_shapes.distance_qq_figure(self.normality),
            "violins": figures_violins.distance_violins(self.by_count),
            "errors": figures_violins.relative_error_violins(self.by_count),
        }


def results(table, datasets, counts=(1,)):
    release = (
        abo.Synthesizer(abo.NIW.default(table.values.shape[1]))
        .fit(table)
        .sample(datasets=datasets, rng_for_tests=np.random.default_rng(1))
    )
    by_count = {
        count: risk_columns(
            table,
            release.first(count),
            mass=False,
        )
        for count in counts
    }
    return Results(fidelity(table, release), densities(table, release), check_normality(table), by_count)


def simulated(n, p, seed=2):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n, p)) @ rng.standard_normal((p, p))
    values[:, 0] = np.exp(values[:, 0] / np.std(values[:, 0]))
    return abo.Records(values, tuple(f"a rather long name {place}" for place in range(p)))


def renamed(found, names):
    """The same results under other names: markup, templates, or too long."""
    verdicts = [
        dataclasses.replace(verdict, subject=name)
        for verdict, name in zip(found.normality.verdicts, names, strict=True)
    ]
    return Results(
        dataclasses.replace(found.fidelity, columns=names),
        dataclasses.replace(found.densities, columns=names),
        dataclasses.replace(found.normality, columns=names, verdicts=tuple(verdicts)),
        found.by_count,
    )
