"""What Explore can be asked, without a browser: the paper's settings, any matrix, a thousand releases."""

from urllib.parse import urlencode

import numpy as np
import pytest

from allbutone.app.forms import FieldError, read
from allbutone.app.jobs import Progress
from allbutone.app.page import RequestContext, Session, Settings
from allbutone.app.pages import explore
from allbutone.app.pages.explore import PRESETS
from allbutone.disclosure.record_view import simulated, view_attack
from allbutone.paper.design_file import read_design


def attack_of(**fields):
    return explore._record_attack(explore.QueryParams(urlencode(fields)))


def answer(name, **fields):
    context = RequestContext(Session(), Settings())
    return explore.PAGE.answers[name].ask(explore.QueryParams(urlencode(fields)), context, Progress())


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_every_preset_is_a_cell_of_the_papers_study(preset):
    asked = read(explore.GROUPS, preset.fields)
    attack = attack_of(**preset.fields)
    wanted = (asked["kind"], int(asked["p"]), asked["n"], asked["count"])
    [cell] = [
        cell
        for cell in read_design("paper").cells
        if (cell.release, cell.p, cell.n, cell.count) == wanted and cell.rows in (None, asked["rows"])
    ]
    assert len(attack.others) == cell.n - 1
    assert attack.target.tolist() == list(cell.target)
    mean, prior = attack.others.mean(axis=0), cell.prior_of(cell.prior)
    assert np.all(np.abs(mean - cell.mean) < 5 * np.sqrt(3 / cell.n))
    assert explore._correlation(asked, cell.p) * 3 == pytest.approx(np.array(cell.covariance))
    assert asked["sd"][0] ** 2 == pytest.approx(3, rel=1e-12)
    for name in ("mean", "mean_weight", "df", "scale"):
        np.testing.assert_array_equal(getattr(attack.prior, name), getattr(prior, name))
    assert attack.release.count >= cell.count


def test_a_matrix_that_is_typed_is_the_matrix_that_is_used():
    typed = "1 0.5\t0\n0.5, 1, -0.25\n0; -0.25 1"
    with pytest.raises(FieldError, match="as many"):
        attack_of(p=3, structure="matrix", matrix=typed)
    same = {"p": 3, "n": 50, "target": "4"}
    found = attack_of(**same, structure="matrix", matrix="1 .3 .3; .3 1 .3; .3 .3 1")
    np.testing.assert_allclose(found.others, attack_of(**same, correlation=0.3).others, rtol=1e-12)
    two = attack_of(**same, structure="block", correlation=0.6)
    typed = attack_of(**same, structure="matrix", matrix="1,.6,0\n.6,1,0\n0,0,1\n")
    np.testing.assert_array_equal(two.others, typed.others)
    shaped = attack_of(p=2, prior_shape="2 1\n1 3", prior_scale=2, linked="no", own_shape="5 0; 0 1")
    assert shaped.prior.scale.tolist() == [[4, 2], [2, 6]]
    assert shaped.own.scale.tolist() == [[5, 0], [0, 1]]


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"structure": "matrix", "matrix": "1 2; 2 1"}, "matrix", "not positive definite"),
        ({"structure": "matrix", "matrix": "2 0; 0 2"}, "matrix", "diagonal"),
        ({"structure": "matrix", "matrix": "1 0.5; 0.4 1"}, "matrix", "symmetric"),
        ({"structure": "matrix", "matrix": "1 x; x 1"}, "matrix", "cannot be used"),
        ({"prior_shape": "1 0 0; 0 1 0; 0 0 1"}, "prior_shape", "3 rows"),
        ({"p": 8, "structure": "block", "correlation": -0.5}, "correlation", "4 columns"),
        ({"count": 200}, "count", "goes on to 100"),
        ({"most": 1000, "rows": 1500, "p": 10}, "rows", "more numbers"),
    ],
)
def test_what_cannot_be_is_said_at_its_field(fields, field, words):
    with pytest.raises(FieldError, match=words) as error:
        answer("answer", **fields)
    assert error.value.name == field


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_a_longer_release_begins_as_the_shorter_one(kind):
    short, long = (attack_of(kind=kind, rows=5, n=20, most=most) for most in (100, 1000))
    assert (short.release.count, long.release.count) == (100, 1000)
    modes = [view_attack(one, 100, size=8).attack.mode for one in (short, long)]
    np.testing.assert_allclose(*modes, rtol=1e-9)
    counts = answer("curve", kind=kind, rows=5, n=20, most=1000).figures["curve"].data[1].x
    assert counts[-1] == 1000


@pytest.mark.parametrize("hidden", ["mode", "integrated"])
def test_ten_columns(hidden):
    found = answer("answer", p=10, target="20", mean="1", count=100, hidden=hidden, x=9, y=10)
    assert found.figures["landscape"]["layout"]["meta"]["shown"] == (8, 9)


def test_the_caption_says_when_the_guess_sits_on_the_mirror_hill():
    """On both sides of the others' centre, by the sign of the exposure, wherever there are two hills."""
    seen = set()
    for seed in range(40):
        attack = simulated(np.zeros(2), np.eye(2), np.array([4.0, -2.0]), rows=20, seed=seed, most=20)
        view = view_attack(attack, 20, size=8)
        centre = attack.given_others.mean
        towards = np.linalg.solve(attack.given_others.scale, attack.target - centre)
        sides = [(mode - centre) @ towards for mode in (view.attack.mode, view.attack.other_mode)]
        two = np.isfinite(view.posterior.modes.gap)
        said = "mirror hill" in explore.view_drawing(view, attack.columns)["layout"]["meta"]["message"]
        assert said == (two and sides[0] < 0 < sides[1])
        seen.add(said)
    assert seen == {True, False}


def test_what_is_shown_is_named():
    """The preset in use, whatever its count; the page as it opens; all else."""
    for preset in PRESETS:
        assert explore.preset_in_use(preset.fields | {"count": "7"}) == f"{preset.name} of the paper"
    assert explore.preset_in_use({"count": "30"}) == "the story"
    assert explore.preset_in_use({"n": "40"}) == "your own settings"


def test_the_story_tells_what_the_rule_says():
    """Each of the last steps is reached exactly where the rule says so of whom it is about."""
    steps = {}
    for count in (1, 2, 7, 10, 30, 100):
        view, attack, _ = explore._view(explore.QueryParams(urlencode({"n": 60, "count": count})))
        values = explore.values_of(212, attack, view.measures, explore.USUAL)
        story = explore.story_of(view, attack, values, 60)
        alone, known = (
            any(value.disclosed and value.rest_known is so for value in values) for so in (False, True)
        )
        member = explore.USUAL.membership_of(np.array([view.measures.evidence]))
        leaks = known or explore.USUAL.discloses_membership(member)[0]
        assert story.step == (5 if alone else 4 if leaks else 3)
        assert len(story.captions) == 5
        assert "60" in story.captions[0][0]
        assert "SD" in story.captions[1][1]
        steps[count] = story.step
    assert steps[1] < steps[100] == 5


@pytest.mark.parametrize(
    "fields", [{"p": 1}, {"p": 2}, {"p": 4, "hidden": "integrated"}, {"p": 2, "n": 4, "rows": 2}]
)
@pytest.mark.parametrize("level", [0.95, 0.99])
def test_the_picture_holds_the_credible_region(fields, level):
    for count in (1, 20):
        asked = explore.QueryParams(urlencode(fields | {"count": count, "level": level, "n": fields.get("n", 40)}))
        ground = explore._view(asked)[0].landscape
        assert ground.edge < ground.region(level)


def test_one_column_is_a_density_beside_the_one_without_the_release():
    view, attack, _ = explore._view(explore.QueryParams(urlencode({"p": 1, "n": 30, "count": 20})))
    one = view.landscape
    np.testing.assert_allclose(one.density, np.exp(view.posterior.log_density(one.x[:, None])), rtol=1e-12)
    assert np.trapezoid(one.density, one.x) == pytest.approx(1, abs=0.01)
    inside = one.density >= one.region(0.8)
    held = np.sum(((one.density * inside)[1:] + (one.density * inside)[:-1]) / 2 * np.diff(one.x))
    assert held == pytest.approx(0.8, abs=0.02)
    drawn = explore.view_drawing(view, attack.columns, unit="SD")
    assert " SD from the record" in drawn["layout"]["meta"]["message"]


def test_columns_have_names_and_a_unit_where_all_have_the_same():
    assert attack_of(p=3, names="height (cm)").columns == ("height (cm)", "column 2", "column 3")
    assert explore.unit_of(("a (cm)", "b (cm)")) == "cm"
    assert explore.unit_of(("a (cm)", "b (kg)")) == explore.unit_of(("a", "b")) == ""
    with pytest.raises(FieldError, match="different names"):
        attack_of(names="a, a")
