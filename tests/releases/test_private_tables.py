"""Guarantees for every table: columns that belong together, categories alone, and values that are missing."""

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtr, ndtri
from shared.seeded_noise import noise_from

import allbutone as abo
from allbutone.disclosure.risk import risk_columns
from allbutone.model.location import Parameters
from allbutone.releases.cut_records import BeforeCut
from allbutone.releases.noise_aware import NoiseAware
from allbutone.releases.noisy_gaps import GapNoise, PeopleWithGaps
from allbutone.releases.private_mechanism import NoiseDesign, NoisyMoments, WholeNumbers, add_noise
from allbutone.releases.private_release import private_mechanism_of, read_private
from allbutone.tables.schema import Schema

NORMAL = {"low": -8.0, "high": 8.0, "centre": 0.0, "spread": 1.0}


def two_levels(**more):
    return {"kind": "category", "levels": ["a", "b"]} | more


def with_gaps(p=2, *, level=True):
    """x0 and the category may be missing, the other measurements may not."""
    columns = {f"x{j}": NORMAL | {"gaps": j == 0} for j in range(p)}
    return Schema.of({"columns": columns | {"c": two_levels(gaps=level)}})


def drawn_gaps(rng, n, p=2, *, level=True):
    values = np.sqrt(0.5) * (rng.standard_normal((n, 1)) + rng.standard_normal((n, p)))
    codes = (rng.random((n, 1)) < 0.6).astype(np.int64)
    values += 0.6 * codes - 0.36
    values[rng.random(n) < np.where(codes[:, 0], 0.35, 0.15), 0] = np.nan  # for reasons that the category tells
    codes[(rng.random(n) < 0.1) & level, 0] = -1
    return values, codes


# ------------------------------------------------------------------------------ columns that belong together


def pressures(rng, n=80):
    low = rng.normal(80, 9, n).round()
    height = rng.normal(172, 8, n).round(1)
    weight = 5 * rng.normal(15, 2, n).round()
    table = {"low": low, "high": (low + rng.gamma(9, 5, n)).round(), "weight": weight, "height": height}
    return table | {"bmi": np.round(weight / (height / 100) ** 2, 1)}


PRESSURES = {
    "low": {"low": 30, "high": 150, "decimals": 0, "centre": 80, "spread": 10},
    "high": {"between": ["low", 300], "decimals": 0},
    "weight": {"low": 20, "high": 200, "step": 5, "centre": 75, "spread": 12},
    "height": {"low": 100, "high": 230, "decimals": 1, "centre": 172, "spread": 9},
    "bmi": {"derived": "weight / (height / 100) ** 2", "decimals": 1},
}


def test_formulas_orders_and_steps_hold_in_every_row_and_are_judged(rng, tmp_path):
    frame = pa.table(pressures(rng))
    release = abo.Synthesizer(epsilon=4.0).fit(frame, schema={"columns": PRESSURES}).sample(datasets=2)
    abo.save_release(release, tmp_path / "r")
    back = abo.load_release(tmp_path / "r")
    assert abo.check(tmp_path / "r", frame).is_clean
    for each in (*back.datasets, *back.draw_more(datasets=1).datasets):
        made = {name: column.to_numpy() for name, column in zip(PRESSURES, each.to_frame("pyarrow"), strict=True)}
        assert np.all((made["low"] <= made["high"]) & (made["high"] <= 300))
        assert np.all(made["weight"] % 5 == 0)
        assert np.allclose(made["bmi"], np.round(made["weight"] / (made["height"] / 100) ** 2, 1))
    found = risk_columns(abo.Records.of(frame, schema={"columns": {"bmi": PRESSURES["bmi"]}}), back)
    for name in ("bmi", "high"):
        assert np.allclose(found[f"bound_{name}"], ndtr(ndtri(found[f"baseline_{name}"]) + back.noisy.mu))
        assert np.mean(found[f"probability_{name}"]) == pytest.approx(np.mean(found[f"baseline_{name}"]), abs=0.1)


def test_a_formula_and_steps_change_nothing_of_what_is_told(rng):
    """They are public maps of what goes out: the same noise on the same moments, at the same ε."""
    table = pressures(rng)
    plain = {
        name: {key: value for key, value in PRESSURES[name].items() if key != "step"}
        for name in ("weight", "height")
    }
    told = []
    for columns in (plain, {name: PRESSURES[name] for name in ("weight", "height", "bmi")}):
        with noise_from(np.random.default_rng(5)):
            frame = pa.table({name: table[name] for name in columns})
            told.append(abo.Synthesizer(epsilon=2.0).fit(frame, schema={"columns": columns}).noisy)
    assert np.array_equal(told[0].matrix, told[1].matrix)
    assert (told[0].rho, told[0].noise) == (told[1].rho, told[1].noise)


def test_what_lies_between_is_limited_whatever_a_record_says(rng):
    """Rows that break the order, and such at its ends, change the sums by no more than the sensitivity."""
    schema = Schema.of({"columns": {name: PRESSURES[name] for name in ("low", "high")}})
    ball = NoiseDesign.of(schema, 30, 1.0, 1e-6).ball
    natural = np.array([[80.0, 120.0], [80.0, 80.0], [150.0, 300.0], [80.0, 20.0], [1e9, -1e9], [30.0, 1e9]])
    inside = ball.inside(natural)
    assert np.all(np.isfinite(inside))
    assert np.all(np.linalg.norm(inside, axis=1) <= ball.radius * (1 + 1e-12))
    way = np.log((120 - 80 + 0.5) / (300 - 120 + 0.5))  # the logit of the share, with half a step at both ends
    assert inside[0, 1] == pytest.approx((way - ball.centre[1]) / ball.unit[1])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"low": PRESSURES["low"], "high": {"above": "low", "decimals": 0}}, "one end alone"),
        (
            {"low": PRESSURES["low"] | {"gaps": True}, "high": PRESSURES["high"]},
            "beside another column and have gaps",
        ),
    ],
)
def test_an_order_without_a_limit_or_with_gaps_is_refused_with_the_cure(columns, message):
    with pytest.raises(abo.InputError, match=message):
        NoiseDesign.of(Schema.of({"columns": columns}), 30, 1.0, 1e-6)


def test_a_date_is_a_public_map_of_days(rng, tmp_path):
    """Within its limits, and back in the form it came in."""
    days = [date(2020, 1, 1) + timedelta(int(day)) for day in rng.integers(5, 700, 60)]
    columns = {"seen": {"kind": "date", "origin": "2020-01-01", "low": "2020-01-01", "high": "2022-01-01"}}
    frame = pa.table({"seen": pa.array(days)})
    abo.save_release(abo.Synthesizer(epsilon=5.0).fit(frame, schema={"columns": columns}).sample(), tmp_path / "r")
    (made,) = abo.load_release(tmp_path / "r").datasets
    told = made.to_frame("pyarrow")["seen"].to_pylist()
    assert all(date(2020, 1, 1) <= day <= date(2022, 1, 1) for day in told)
    assert abo.check(tmp_path / "r", frame).is_clean


@pytest.mark.parametrize("form", ["", "date"])
def test_no_record_tells_how_the_dates_of_others_are_read(form):
    """13/02 and 02/13 would turn all others round."""
    dates = [f"{1 + day % 12:02d}/{1 + day * 5 % 11:02d}/2020" for day in range(40)]
    seen = {"kind": "date", "low": "2019-01-01", "high": "2022-01-01"} | ({"form": form} if form else {})
    for last, found in (("13/02/2020", "DD/MM/YYYY"), ("02/13/2020", "MM/DD/YYYY")):
        frame = pa.table({"seen": [*dates, last]})
        with pytest.raises(abo.InputError, match=f'declare form = "{found}"'):
            read_private(frame, {"columns": {"seen": seen}})
        records = abo.Records.of(frame, schema={"columns": {"seen": {"kind": "date"}}})
        with pytest.raises(abo.InputError, match="day or month"):
            read_private(records, None)
        declared = {"columns": {"seen": seen | {"form": found}}}
        assert len(read_private(frame, declared)[0].values) == len(read_private(records, declared)[0].values) == 41


@pytest.mark.parametrize(
    ("more", "message"), [({"model": "classes"}, "no known bound"), ({"keep": "x"}, "as they are")]
)
def test_what_has_no_guarantee_is_refused_with_the_reason(more, message):
    with pytest.raises(abo.InputError, match=message):
        abo.Synthesizer(epsilon=1.0, **more)


@pytest.mark.parametrize("column", ["the same", "a copy", "a code", "counting", "beyond"])
@pytest.mark.usefixtures("seeded_noise")
def test_nothing_is_refused_for_what_all_records_are_together(rng, column):
    """Else that there is a release would tell of each record that it is not the one that makes it so."""
    a = rng.standard_normal(40)
    b = {"the same": np.ones(40), "a copy": 2 * a, "a code": np.r_[a[1:] ** 2, 999.0], "counting": np.arange(40.0),
         "beyond": 100 + a}[column]  # fmt: skip
    frame, schema = pa.table({"a": a, "b": b}), {"columns": {"a": NORMAL, "b": NORMAL}}
    assert read_private(frame, schema)[0].notes or column == "beyond"
    release = abo.Synthesizer(epsilon=5.0).fit(frame, schema=schema).sample(datasets=1)
    assert release.rows == (40,)
    if column in ("the same", "a copy", "beyond"):
        with pytest.raises(abo.InputError, match="cannot be told of this table: 'b'"):
            abo.risk(frame, release)
    else:
        assert abo.risk(frame, release).frame.num_rows == 40


# ------------------------------------------------------------------------------ categories alone


def test_categories_alone_are_counted_drawn_and_attacked(rng, tmp_path):
    """Of one category the posterior is its prior, from the others' counts, times the noise's normal density."""
    n, codes = 40, rng.choice(3, 40, p=[0.5, 0.3, 0.2])
    frame = pa.table({"c": np.array(["a", "b", "d"])[codes]})
    columns = {"c": {"kind": "category", "levels": ["a", "b", "d"]}}
    with noise_from(rng):
        release = abo.Synthesizer(epsilon=6.0).fit(frame, schema={"columns": columns}).sample(datasets=400)
    abo.save_release(release, tmp_path / "r")
    assert abo.check(tmp_path / "r", frame).is_clean
    told = abo.load_release(tmp_path / "r").noisy
    assert 5.99 < told.epsilon <= 6.0
    (margin,) = told.counts
    drawn = np.mean(
        [[np.mean(each.categories.codes == level) for level in range(3)] for each in release.datasets], axis=0
    )
    assert np.all(np.abs(drawn - margin.counts.clip(0) / n) < 0.03)
    found = risk_columns(abo.Records.of(frame, categories=True, schema={"columns": columns}), release)
    for row in range(5):
        others = np.bincount(np.delete(codes, row), minlength=3)
        prior = others + 1 / 3
        off = np.array([np.sum((margin.counts - others - np.eye(3)[level]) ** 2) for level in range(3)])
        after = prior * np.exp(-0.5 * off / margin.noise**2)
        assert found["baseline_c"][row] == pytest.approx((prior / prior.sum())[codes[row]])
        assert found["probability_c"][row] == pytest.approx((after / after.sum())[codes[row]])


# ------------------------------------------------------------------------------ values that are missing


def test_no_neighbours_differ_by_more_whatever_is_missing_of_them(rng):
    ball = NoiseDesign.of(with_gaps(3), 40, 1.0, 1e-6).ball
    whole, largest = WholeNumbers.of(ball, 40), 0.0
    for scale in np.tile([0.3, 2.0, 1e9], 40):
        values, codes = (np.repeat(each[None], 2, axis=0) for each in drawn_gaps(rng, 40, 3))
        values[:, 0] = scale * rng.standard_normal((2, 3))
        values[:, 0, 0] = np.where(rng.random(2) < 0.5, np.nan, values[:, 0, 0])
        codes[:, 0] = rng.integers(-1, 2, size=(2, 1))
        pairs = [whole.total(v, ball.cell_of(c, v)) for v, c in zip(values, codes, strict=True)]
        difference = np.where(whole.noisy, pairs[0] - pairs[1], 0).astype(float)
        largest = max(largest, np.linalg.norm(difference) / whole.change)
    assert 0.5 < largest <= 1


@pytest.mark.usefixtures("seeded_noise")
def test_what_is_told_are_sums_of_what_is_observed_and_who_lacks_what(rng):
    values, codes = drawn_gaps(rng, 200)
    told = add_noise(NoiseDesign.of(with_gaps(), 200, 1e5, 1e-6), values, codes)
    there, ball = ~np.isnan(values), told.ball
    inside = ball.shrunk(np.nan_to_num(values))
    assert np.allclose(told.matrix[:2, :2], inside.T @ inside, atol=0.5)
    assert told.matrix[0, 2] == pytest.approx(ball.eta * np.sum(inside[:, 0]), abs=0.5)
    by_places = {margin.places: margin.counts for margin in told.counts}
    assert np.allclose(by_places[0,], [np.sum(codes == k) for k in (0, 1, -1)], atol=0.5)
    assert np.allclose(by_places[1,], [np.sum(there[:, 0]), np.sum(~there[:, 0])], atol=0.5)
    assert by_places[0, 1][-1] == pytest.approx(np.sum((codes[:, 0] == -1) & ~there[:, 0]), abs=0.5)


def test_what_chance_makes_of_who_is_missing_has_the_variance_that_is_stated(rng):
    """The sums of what is observed, less what all moments say of them: no mean, V, and uncorrelated with those."""
    n, runs, schema = 80, 3000, with_gaps(2)
    ball = NoiseDesign.of(schema, n, 1.0, 1e-6).ball
    values, codes = drawn_gaps(rng, n)
    cells = ball.cell_of(codes, values)
    there, w = ~np.isnan(values), ball.codes[cells]
    effects, covariance = rng.normal(0, 0.3, (2, w.shape[1])), np.array([[1.0, 0.6], [0.6, 1.3]])
    told = NoisyMoments(ball, n, np.zeros((2 + w.shape[1],) * 2), 1e-6, 0, 1, 1e-6, 0.1)
    people = np.bincount(cells, minlength=ball.cells.count)[None]
    noise = GapNoise.of(told, people, (effects, covariance))
    x = w @ effects.T + rng.standard_normal((runs, n, 2)) @ np.linalg.cholesky(covariance).T
    every, seen = (np.concatenate([each, np.broadcast_to(w, (runs, *w.shape))], axis=2) for each in (x, x * there))
    every, seen = (np.einsum("kni,knj->kij", each, each) for each in (every, seen))
    expected = PeopleWithGaps(told, np.repeat(people, runs, axis=0).astype(float)).expected(every, slice(None))
    off, moments = noise.row(seen - expected), noise.row(every)
    spread = off.std(axis=0)
    assert np.all(np.abs(off.mean(axis=0)) < 5 * spread / np.sqrt(runs) + 0.02 * spread + 1e-9)
    stated = np.sqrt(np.diagonal(noise.covariance))
    seen_at_all = stated > 1e-3
    assert np.allclose(spread[seen_at_all], stated[seen_at_all], rtol=0.08)
    together = np.corrcoef(off[:, seen_at_all].T)
    exact = noise.covariance[np.ix_(seen_at_all, seen_at_all)] / np.outer(stated[seen_at_all], stated[seen_at_all])
    assert np.allclose(together, exact, atol=0.1)
    across = np.corrcoef(off[:, seen_at_all].T, moments.T)[: seen_at_all.sum(), seen_at_all.sum() :]
    assert np.max(np.abs(across)) < 6 / np.sqrt(runs) + 0.03


def intervals_with_gaps(rng, epsilon, tables, n=500, draws=192):
    """Which of the 95 % intervals hold the truth: a row for each table."""
    covered, design = [], NoiseDesign.of(with_gaps(3), n, epsilon, 2e-5)
    for _ in range(tables):
        values, codes = drawn_gaps(rng, n, 3)
        told = add_noise(design, values, codes)
        drawn: Parameters = BeforeCut(told.ball).of(NoiseAware(told).draw(draws, rng)[0])
        levels, lacking = told.ball.cells.marginal(drawn.shares)
        spread = np.sqrt(np.diagonal(drawn.covariances[:, 0], axis1=1, axis2=2))
        apart = drawn.coefficients[:, 2] - drawn.coefficients[:, 0]  # level b against level a
        related = drawn.covariances[:, 0, 0, 1:] / spread[:, :1] / spread[:, 1:]
        found = np.column_stack([levels, lacking[:, 1], spread, apart, related])
        truth = np.array([0.36, 0.54, 0.1, 0.27, 1, 1, 1, 0.6, 0.6, 0.6, 0.5, 0.5])
        covered.append(np.abs(np.mean(found < truth, axis=0) - 0.5) < 0.475)
    return np.array(covered)


@pytest.mark.usefixtures("seeded_noise")
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_intervals_of_tables_with_gaps_cover(rng, epsilon):
    """Of 95 % intervals from private draws 93 to 97 % hold the truth, although more of some people is missing."""
    tables = 60
    covered = intervals_with_gaps(rng, epsilon, tables)
    error = np.std(np.mean(covered, axis=1)) / np.sqrt(tables)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02 + 3 * error)


@pytest.mark.usefixtures("seeded_noise")
def test_the_adversary_is_calibrated_where_values_are_missing(rng):
    """The missing record, gaps and all, comes from what the others say; then P − P² − (1 − P)² averages to 0."""
    schema, n, runs = with_gaps(1, level=False), 40, 150
    design = NoiseDesign.of(schema, n, 8.0, 1e-6)
    values, codes = drawn_gaps(rng, n, 1, level=False)
    cells = design.ball.cell_of(codes, values)
    weights = np.bincount(cells[:-1], minlength=4) + 0.25
    z = np.column_stack([np.ones(n), codes == 0, codes == 1]).astype(float)
    there = ~np.isnan(values[:, 0])
    there[-1] = False
    prior = np.diag([0.0, 1.0, 1.0])
    gram = z[there].T @ z[there] + prior
    effects = np.linalg.solve(gram, z[there].T @ values[there, 0])
    scale = values[there, 0] @ values[there, 0] - effects @ gram @ effects
    mechanism, own, ratios, missing = private_mechanism_of(schema, "keep"), [], [], []
    for _ in range(runs):
        cell = rng.choice(4, p=weights / weights.sum())
        codes[-1] = design.ball.cells.codes[cell, 0]
        row = np.array([1.0, codes[-1, 0] == 0, codes[-1, 0] == 1])
        df = there.sum() - 1
        wide = np.sqrt(scale / df * (1 + row @ np.linalg.solve(gram, row)))
        values[-1] = row @ effects + wide * rng.standard_t(df) if design.ball.observed[cell, 0] else np.nan
        records = abo.Records.of(
            pa.table({"x0": pa.array(values[:, 0], from_pandas=True), "c": np.array(["a", "b"])[codes[:, 0]]}),
            categories=True, gaps=True, schema={"columns": {"x0": {}, "c": two_levels()}},
        )  # fmt: skip
        told = add_noise(design, values, codes)
        found = risk_columns(records, abo.Release(mechanism, (records,), noisy=told))
        own.append(found["probability_c"][-1])
        missing.append([found["probability_gaps"][-1], found["baseline_gaps"][-1]])
        ratios.append(np.exp(-found["membership_evidence"][-1]))
        assert np.isnan(found["probability_x0"][-1]) == np.isnan(values[-1, 0])
    own, gaps = np.array(own), np.array(missing)[:, 0]
    laws = [own - own**2 - (1 - own) ** 2, gaps - gaps**2 - (1 - gaps) ** 2]
    laws += [np.array(ratios) - 1]
    for numbers in laws:
        assert np.abs(np.mean(numbers)) < 5 * np.std(numbers) / np.sqrt(runs) + 0.01


def test_gaps_are_kept_or_imputed_and_must_be_declared(rng, tmp_path):
    values, codes = drawn_gaps(rng, 90)
    frame = pa.table({"x0": pa.array(values[:, 0], from_pandas=True), "x1": values[:, 1],
                      "c": pa.array([None if code < 0 else "ab"[code] for code in codes[:, 0]])})  # fmt: skip
    schema = with_gaps()
    kept = abo.Synthesizer(epsilon=5.0, missing="keep").fit(frame, schema=schema).sample(datasets=2)
    abo.save_release(kept, tmp_path / "r")
    back = abo.load_release(tmp_path / "r")
    assert abo.check(tmp_path / "r", frame).is_clean
    assert all(
        each.has_gaps and not np.isnan(each.values[:, 1]).any() for each in back.draw_more(datasets=2).datasets
    )
    found = abo.risk(frame, back).frame
    assert np.array_equal(np.isnan(found["probability_x0"].to_numpy()), np.isnan(values[:, 0]))
    assert "bound_gaps" in found.column_names
    whole = abo.Synthesizer(epsilon=5.0, missing="impute").fit(frame, schema=schema).sample(datasets=2)
    assert not any(each.has_gaps for each in whole.datasets)
    silent = Schema(tuple(replace(column, gaps=column.name == "x0") for column in schema.columns))
    with pytest.raises(abo.InputError, match="c lack values"):
        abo.Synthesizer(epsilon=5.0, missing="keep").fit(frame, schema=silent)
    with pytest.raises(abo.InputError, match="names none"):
        abo.Synthesizer(epsilon=5.0, missing="keep").fit(
            frame, schema=with_gaps(level=False).for_columns(["x1", "c"])
        )
    with pytest.raises(abo.InputError, match="gaps = true") as caught:
        abo.Synthesizer(epsilon=5.0).fit(frame, schema=schema)
    assert "complete_cases" not in str(caught.value)


def test_whoever_lacks_everything_does_not_change_the_number_of_people(rng):
    """Who would be left out would be told by the number, exactly."""
    values = rng.standard_normal((40, 2))
    values[3], values[7, 0] = np.nan, np.nan
    frame = pa.table({f"x{j}": pa.array(values[:, j], from_pandas=True) for j in range(2)})
    for gaps in (True, False):  # of the second, too, or not
        columns = {"x0": NORMAL | {"gaps": True}, "x1": NORMAL | {"gaps": gaps}}
        with pytest.raises(abo.InputError, match="without any value"):
            abo.Synthesizer(epsilon=5.0, missing="keep").fit(frame, schema={"columns": columns})


# ------------------------------------------------------------------------------ people with several rows


VISITS = {
    "person": "id", "visit": "month", "visits": [0, 6],
    "columns": {"c": two_levels(once=True), "x": NORMAL | {"gaps": True}, "x@0": NORMAL},
}  # fmt: skip


def rows_of_people(rng, n=60):
    """Rows of each person at one visit or two, in any order."""
    rows = [
        {"id": f"P{person}", "month": month, "c": "ab"[person % 2], "x": float(rng.standard_normal())}
        for person in range(n) for month in (0, 6)[: 1 + (person % 3 > 0)]
    ]  # fmt: skip
    return [rows[place] for place in rng.permutation(len(rows))]


def test_a_person_with_all_of_their_rows_is_what_is_protected(rng):
    """Whatever rows a person has, only their own record changes, and nothing else that is told or public."""
    rows = rows_of_people(rng)
    wide, schema = read_private(pa.Table.from_pylist(rows), VISITS, "keep")
    assert wide.natural.shape == (60, 2)
    assert [column.gaps for column in schema.measurements] == [False, True]
    for own in ([("a", 0, 9.0)], [("b", 0, -9.0), ("b", 6, 0.5)]):
        others = [{"id": "P7", "month": month, "c": c, "x": x} for c, month, x in own]
        there = [row for row in rows if row["id"] != "P7"]
        beside, other_schema = read_private(pa.Table.from_pylist([*others, *there]), VISITS, "keep")
        assert other_schema == schema
        records = [
            {who: (*row, *code) for who, row, code in
             zip(each.people.tolist(), each.natural.tolist(), each.categories.codes.tolist(), strict=True)}
            for each in (wide, beside)
        ]  # fmt: skip
        first, second = records
        assert {*first} == {*second}
        assert [who for who in first if not np.array_equal(first[who], second[who], equal_nan=True)] == ["P7"]


@pytest.mark.usefixtures("seeded_noise")
def test_people_with_visits_go_out_as_rows_and_are_judged_by_person(rng, tmp_path):
    frame = pa.Table.from_pylist(rows_of_people(rng))
    release = abo.Synthesizer(epsilon=4.0, missing="keep").fit(frame, schema=VISITS).sample(datasets=1)
    assert "one of 60 people, with all of their rows," in release.noisy.in_words
    abo.save_release(release, tmp_path / "r")
    back = abo.load_release(tmp_path / "r")
    assert abo.check(tmp_path / "r", frame).is_clean
    long = back.to_frames("pyarrow")[0]
    assert long.column_names == ["id", "month", "c", "x"]
    assert 60 < long.num_rows < 120
    found = abo.risk(frame, back).frame
    assert sorted(found["person"].to_pylist()) == sorted({row["id"] for row in frame.to_pylist()})
    assert {"bound_x@0", "bound_x@6", "bound_gaps"} <= {*found.column_names}
    records = abo.Records.of(frame, schema=VISITS, categories=True, gaps=True)
    with pytest.raises(abo.InputError, match="other visits"):
        read_private(records, VISITS | {"visits": [0, 6, 12]}, "keep")
