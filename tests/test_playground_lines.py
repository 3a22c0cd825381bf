"""The playground's lines in a real browser: only an answer is drawn as one, and each line looks like its rule."""

import browsing
import pytest
from browsing import MARKS, faults, held, server, settle, stop, told
from serving import begun

from fewstep.learners import LEARNERS
from fewstep.rules import RULES
from fewstep.runs import open_run
from fewstep.runs.log import to_lines
from fewstep.training import Row

chromium, browse = browsing.chromium, browsing.browse
pytestmark = MARKS
AFTER, STALE = "#plot path.after", "#plot path.after.stale"
NO_CACHE = {"JAX_ENABLE_COMPILATION_CACHE": "0"}  # so that a new size takes as long as it does the first time


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs of 40 steps that are served, and a longer one of the same rule as one of them."""
    made = tmp_path_factory.mktemp("lines")
    begun(made, "mtnet")
    begun(made, "maml").rename(made / "again")
    longer = open_run(made / "again")
    longer.append(to_lines([Row(step, [4.0 / step], [1.0], None) for step in (60, 80, 100)], longer.seeds))
    begun(made, "maml")
    return made


@pytest.fixture(scope="module")
def url(folder):
    with server(folder / "maml", folder / "mtnet", "--runs", folder, **NO_CACHE) as (found, _):
        yield found


def paths(page, selector):
    """The lines of a selector that are drawn, by model."""
    drawn = page.locator(selector).evaluate_all("all => all.map(one => [one.dataset.model, one.getAttribute('d')])")
    return {model: line for model, line in drawn if line}


def click(page, *places):
    """Clicks at places of the plot, as shares of its width and height."""
    page.locator("#plot svg").scroll_into_view_if_needed()
    box = page.locator("#plot svg").bounding_box()
    for x, y in places:
        page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])


def figures(page):
    """The errors that the table gives after adapting."""
    return page.locator("#scores :is(td.points, td.after)").all_inner_texts()


def test_without_points_nothing_is_drawn_as_adapted(browse):
    page = browse()
    assert paths(page, AFTER) == {}
    assert paths(page, "#plot path.before").keys() == {"maml", "mtnet"}


@pytest.mark.slow
def test_an_answer_to_other_points_is_marked_while_the_new_one_is_awaited(browse):
    page = browse()
    click(page, (0.3, 0.4), (0.6, 0.6))
    settle(page)
    old = paths(page, AFTER)
    assert old.keys() == {"maml", "mtnet"}
    assert page.locator(STALE).count() == 0
    with held(page, "**/predict"):
        click(page, (0.8, 0.3))
        page.locator(STALE).nth(1).wait_for(state="attached")
        assert paths(page, STALE) == old
        told(page, "plot-status", "Waiting for the server")
        assert not any(text[0].isdigit() for text in figures(page))
        assert faults(page) == []
    settle(page)
    assert page.locator(STALE).count() == 0
    assert page.inner_text("#plot-status") == ""
    assert all(new != old[model] for model, new in paths(page, AFTER).items())


@pytest.mark.slow
def test_that_a_size_compiles_is_said(browse):
    page = browse()
    click(page, *((0.1 + 0.05 * n, 0.3 + 0.02 * n) for n in range(16)))
    settle(page)
    before = paths(page, AFTER)
    click(page, (0.5, 0.8))  # the 17th point: a program for up to 64 points is needed now
    said = page.locator("#plot:has(path.after.stale) > #plot-status", has_text="Compiling")
    said.wait_for(state="attached")
    settle(page)
    assert page.inner_text("#plot-status") == ""
    assert page.locator(STALE).count() == 0
    assert all(new != before[model] for model, new in paths(page, AFTER).items())


@pytest.mark.slow
def test_without_a_server_no_curve_is_drawn_as_adapted(chromium, folder):
    with server(folder / "maml") as (url, process):
        page = chromium.new_page(reduced_motion="reduce")
        page.goto(url)
        page.wait_for_selector("body[data-ready]")
        click(page, (0.3, 0.4), (0.6, 0.6))
        settle(page)
        old = paths(page, AFTER)
        assert stop(process) == 0
        click(page, (0.8, 0.3))
        told(page, "trouble", "does not answer")
        told(page, "plot-status", "does not answer")
        settle(page)
        assert paths(page, AFTER + ":not(.stale)") == {}
        assert paths(page, STALE) == old
        assert not any(text[0].isdigit() for text in figures(page))
        page.close()


def test_a_rule_looks_the_same_in_every_tab(browse):
    look = "all => all.map(one => one.classList.value.match(/color-\\d dash-\\d/)[0])"
    page = browse("training")
    of_run = lambda name: page.locator(f"#runs li[data-run={name}] .swatch path").evaluate_all(look)
    runs = {name: of_run(name) for name in ("again", "maml", "mtnet")}
    page.click("#tab-curves")
    click(page, (0.3, 0.4))
    settle(page)
    table = page.evaluate("async () => (await import('/static/series.js')).LOOKS")
    for name in ("maml", "mtnet"):
        places = (f"#plot path[data-model={name}]", f"#scores tr[data-model={name}] .swatch path")
        shown = [one for place in places for one in page.locator(place).evaluate_all(look)]
        assert {*shown, *runs[name]} == {"color-{} dash-{}".format(*table[name])}
    (first,), (second,) = runs["maml"], runs["again"]
    assert first.split()[0] == second.split()[0]  # two runs of one rule have its color, and are told apart
    assert first.split()[1] != second.split()[1]


def test_every_method_has_a_look_of_its_own(browse):
    table = browse().evaluate("async () => (await import('/static/series.js')).LOOKS")
    assert table.keys() == {*RULES, *LEARNERS}
    assert len({tuple(look) for look in table.values()}) == len(table)


DASH = """all => all.map(one => { const look = getComputedStyle(one), width = parseFloat(look.strokeWidth);
    const dash = look.strokeDasharray === "none" ? [] : look.strokeDasharray.split(",").map(parseFloat);
    return [look.strokeLinecap, width, dash.map(length => (length / width).toFixed(2)).join(" ")]; })"""


def test_emphasis_is_width_and_keeps_the_dash(browse):
    page = browse("training")
    page.wait_for_selector("#chart path.after[data-run=again]", state="attached")
    of = lambda place: page.locator(place).evaluate_all(DASH)
    chart = {name: of(f"#chart path[data-run={name}]") for name in ("again", "maml", "mtnet")}
    keys = {name: of(f"#runs li[data-run={name}] .swatch path") for name in chart}
    page.click("#tab-curves")
    click(page, (0.3, 0.4))
    settle(page)
    plot = {name: of(f"#plot path:is(.before, .after)[data-model={name}]") for name in ("maml", "mtnet")}
    dashes = {}
    for name in chart:
        drawn = [*chart[name], *keys[name], *plot.get(name, [])]
        assert len({width for _, width, _ in drawn}) > 1
        (dashes[name],) = {dash for _, _, dash in drawn}
        assert {cap for cap, _, _ in drawn} == {"butt"}  # a round end reaches over the gap behind it
    assert len(set(dashes.values())) == 3


def test_the_best_error_is_bold_and_no_empty_cell_is(browse):
    page = browse()
    bold = lambda: page.locator("#scores td").evaluate_all(
        """all => all.filter(one => getComputedStyle(one).fontWeight > 500)
            .map(one => [one.classList[1], one.textContent])"""
    )
    assert bold() == []
    click(page, (0.3, 0.4), (0.6, 0.7))
    settle(page)
    ((column, text),) = bold()  # there is no true curve: the error on the points decides
    assert column == "points"
    assert float(text) == min(map(float, page.locator("#scores td.points").all_inner_texts()))
    page.click("#draw-task")
    settle(page)
    ((column, text),) = bold()
    assert column == "after"
    assert float(text) == min(map(float, page.locator("#scores td.after").all_inner_texts()))


def test_a_run_has_no_reading_beyond_its_end(browse):
    page = browse("training")
    page.uncheck("#smooth")
    page.wait_for_selector("#chart path.after[data-run=again]", state="attached")
    box = page.locator("#chart svg").bounding_box()
    ends = page.locator("#chart path.after").evaluate_all(
        "all => all.map(one => [one.dataset.run, one.getPointAtLength(one.getTotalLength()).x])"
    )
    ends = dict(ends)
    assert ends["maml"] < ends["again"]

    def reading(x):
        page.mouse.move(box["x"] + x, box["y"] + box["height"] / 2)
        assert page.locator("#chart .reading-cross circle").count() == page.locator("#chart .reading span").count()
        return page.locator("#chart .reading span").all_inner_texts()

    step = (ends["again"] - ends["maml"]) / 3  # the width of 20 steps
    names = lambda texts: {text.split()[0] for text in texts}
    assert names(reading(ends["maml"] - step / 2)) == {"again", "maml", "mtnet"}
    for x in (ends["maml"] + 1.5 * step, ends["again"], ends["again"] + 10):
        assert names(reading(x)) == {"again"}
    page.focus("#chart svg")
    page.keyboard.press("End")
    assert page.inner_text("#chart .reading").startswith("step 100")
    told(page, "training-said", "again")
    assert "maml" not in page.inner_text("#training-said")


@pytest.mark.parametrize("width", [390, 1440])
def test_the_ring_of_a_point_at_the_edge_is_whole(browse, width):
    page = browse(width=width)
    for corner in ((0.01, 0.01), (0.99, 0.01), (0.01, 0.99), (0.99, 0.99)):
        click(page, corner)
        settle(page)
        room = page.locator("#plot .point.selected .ring").evaluate(
            """ring => { const box = ring.ownerSVGElement.getBoundingClientRect(), own = ring.getBoundingClientRect();
            const x = (own.left + own.right) / 2, y = (own.top + own.bottom) / 2;
            const reach = ring.r.baseVal.value + parseFloat(getComputedStyle(ring).strokeWidth) / 2;
            return Math.min(x - box.left, box.right - x, y - box.top, box.bottom - y) - reach; }"""
        )
        assert room >= 0
