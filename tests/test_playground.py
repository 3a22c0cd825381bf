"""The playground in a real browser, against a real server: points, sliders, drawings, live curves, accessibility."""

import json
import math
import re
import time
from pathlib import Path

import browsing
import numpy as np
import pytest
from browsing import MARKS, faults, heard, server, settle, start, stop, told
from helpers import DATA, needs_omniglot
from PIL import Image
from serving import begun

TABS = ("curves", "characters", "training")
chromium, browse = browsing.chromium, browsing.browse
pytestmark = MARKS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("playground")
    for method in ("maml", "mtnet"):
        begun(made, method, hidden=(24, 24), inner_steps=3)
    return made


@pytest.fixture(scope="module")
def url(folder):
    data = {"FEWSTEP_DATA": str(DATA)} if (DATA / "omniglot").is_dir() else {}
    models = (folder / "maml", folder / "mtnet", "omniglot-mtnet-5way")
    with server(*models, "--runs", folder, **data) as (found, _):
        yield found


def line(page, model, kind="after"):
    return page.locator(f"#plot path.{kind}[data-model={model}]").get_attribute("d")


def error(page, model, column="after"):
    text = page.locator(f"#scores tr[data-model={model}] td.{column}").inner_text()
    return float(text) if text[0].isdigit() else math.nan


def slide(page, slider, value):
    page.locator(f"#{slider}").fill(str(value))
    settle(page)


def on_the_true_curve(page, count):
    """Places on the screen along the true curve."""
    return page.evaluate(
        """count => {
            const curve = document.querySelector("#plot path.truth");
            const box = curve.ownerSVGElement.getBoundingClientRect();
            const at = n => curve.getPointAtLength(curve.getTotalLength() * (n + 0.5) / count);
            return Array.from({length: count}, (_, n) => [box.left + at(n).x, box.top + at(n).y]);
        }""",
        count,
    )


def test_points_bend_the_curves_and_the_error_falls(browse):
    page = browse()
    start = {model: line(page, model, "before") for model in ("maml", "mtnet")}
    assert start["maml"]
    assert page.locator("#plot .point").count() == 0
    page.click("#draw-task")
    settle(page)
    assert page.locator("#plot .point").count() == 10
    page.click("#clear")
    slide(page, "steps", 20)
    assert page.locator("#plot path.truth").count() == 1
    for x, y in on_the_true_curve(page, 12):
        page.mouse.click(x, y)
    settle(page)
    assert page.locator("#plot .point").count() == 12
    for model in ("maml", "mtnet"):
        assert line(page, model) != start[model]
        assert error(page, model) < 0.8 * error(page, model, "before")
        assert page.locator(f"#strips [data-model={model}] li").count() == 3
    assert line(page, "mtnet", "band")
    assert not line(page, "maml", "band")
    shares = page.locator("#strips [data-model=mtnet] .unit").evaluate_all(
        "cells => cells.map(cell => Number(cell.getAttribute('fill-opacity')))"
    )
    assert len({round(share, 2) for share in shares}) > 3
    page.uncheck("#show-truth")
    settle(page)
    assert page.locator("#plot path.truth").count() == 0
    assert math.isnan(error(page, "maml"))


def test_points_are_dragged_removed_and_brought_back(browse):
    page = browse()
    box = page.locator("#plot svg").bounding_box()
    place = lambda x, y: (box["x"] + x * box["width"], box["y"] + y * box["height"])

    def count():
        settle(page)
        return page.locator("#plot .point").count()

    page.mouse.click(*place(0.3, 0.4))
    page.mouse.click(*place(0.6, 0.6))
    settle(page)
    before = line(page, "maml")
    page.mouse.move(*place(0.3, 0.4))
    page.mouse.down()
    page.mouse.move(*place(0.35, 0.2), steps=4)
    page.mouse.up()
    settle(page)
    assert line(page, "maml") != before
    assert count() == 2
    page.click("#undo")
    settle(page)
    assert line(page, "maml") == before
    page.mouse.dblclick(*place(0.3, 0.4))
    assert count() == 1
    page.mouse.click(*place(0.6, 0.6), button="right")
    assert count() == 0
    page.click("#undo")
    page.click("#undo")
    assert count() == 2
    page.mouse.click(*place(0.6, 0.6))
    page.click("#remove-point")
    assert count() == 1
    page.mouse.dblclick(*place(0.8, 0.8))  # a hasty double click on an empty place puts one point down
    assert count() == 2
    settle(page)


@pytest.mark.slow
def test_the_plot_by_keyboard(browse):
    page = browse()
    page.focus("#plot svg")
    for key in ("ArrowRight", "Shift+ArrowUp", "Enter", "Shift+ArrowLeft", "Shift+ArrowLeft", "Enter"):
        page.keyboard.press(key)
    settle(page)  # it is drawn in the next frame
    points = page.locator("#plot .point")
    assert points.count() == 2
    placed = points.last.get_attribute("transform")
    for key in (
        "Enter",
        "ArrowDown",
        "Enter",
        "ArrowDown",
    ):  # picks it up, moves it, puts it down; then the cursor moves
        page.keyboard.press(key)
    settle(page)
    moved = points.last.get_attribute("transform")
    assert moved != placed
    page.keyboard.press("n")
    page.keyboard.press("Delete")
    settle(page)
    assert points.count() == 1
    told(page, "plot-said", "Removed")
    told(page, "curves-said", "MAML: error")
    page.focus("#tab-curves")
    page.keyboard.press("ArrowRight")
    assert page.locator("#panel-characters").is_visible()
    assert page.evaluate("document.activeElement.id") == "tab-characters"
    settle(page)


def test_the_sliders(browse):
    page = browse()
    page.click("#draw-task")
    settle(page)
    slide(page, "steps", 0)
    assert line(page, "maml") == line(page, "maml", "before")
    assert error(page, "maml") == error(page, "maml", "before")
    shown = []
    for steps in (1, 10, 50):
        slide(page, "steps", steps)
        shown.append(error(page, "maml", "points"))
    assert shown == sorted(shown, reverse=True)
    slide(page, "steps", 2)
    usual = line(page, "mtnet")
    slide(page, "pace", -1)
    assert page.inner_text("#pace-value").split()[1:] == ["0.10", "=", "0.002"]
    assert line(page, "mtnet") != usual
    page.click("#as-trained")
    settle(page)
    assert page.inner_text("#steps-value") == "3"
    assert page.inner_text("#pace-value").split()[1:] == ["1.0", "=", "0.02"]


def ring(n=14):
    return [
        (0.5 + 0.3 * math.cos(2 * math.pi * k / n), 0.5 + 0.3 * math.sin(2 * math.pi * k / n)) for k in range(n + 1)
    ]


SHAPES = (
    (ring(),),
    (((0.2, 0.2), (0.8, 0.8)), ((0.8, 0.2), (0.2, 0.8))),
    (((0.25, 0.2), (0.25, 0.8), (0.8, 0.8)),),
    (((0.2, 0.25), (0.8, 0.25), (0.2, 0.8), (0.8, 0.8)),),
    (((0.15, 0.3), (0.85, 0.3)), ((0.15, 0.5), (0.85, 0.5)), ((0.15, 0.7), (0.85, 0.7))),
)


def draw(page, pad, shape, rng):
    """Draws a shape with the mouse, not quite the same each time."""
    page.locator(pad).scroll_into_view_if_needed()
    box, turn = page.locator(pad).bounding_box(), rng.normal(0, 0.07)
    wide, high, right, down = rng.uniform(0.85, 1.05), rng.uniform(0.85, 1.05), *rng.normal(0, 0.025, 2)
    for stroke in shape:
        for n, (x, y) in enumerate(stroke):
            u, v = (x - 0.5) * wide + rng.normal(0, 0.008), (y - 0.5) * high + rng.normal(0, 0.008)
            at = (
                0.5 + right + u * math.cos(turn) - v * math.sin(turn),
                0.5 + down + u * math.sin(turn) + v * math.cos(turn),
            )
            page.mouse.move(box["x"] + at[0] * box["width"], box["y"] + at[1] * box["height"], steps=3 if n else 1)
            if n == 0:
                page.mouse.down()
        page.mouse.up()


def best(page):
    settle(page)
    return page.inner_text("#verdict strong")


def test_characters_drawn_with_the_mouse_are_recognized(browse):
    page, rng = browse("characters"), np.random.default_rng(0)
    assert page.locator("#pads .pad").count() == 5
    for number, shape in enumerate(SHAPES, 1):
        draw(page, f"#pads .example:nth-child({number}) .pad", shape, rng)
    settle(page)
    right = 0
    for number in (0, 1, 2, 3, 4) * 2:
        draw(page, "#query-pad .pad", SHAPES[number], rng)
        right += best(page) == "ABCDE"[number]
        page.click("#query-pad [aria-label^=Clear]")
    assert right >= 8  # of ten; chance is two
    figures = page.locator("#bars .figure").all_inner_texts()
    assert len(figures) == 5


@pytest.mark.slow
def test_characters_without_a_mouse(browse):
    """Shapes of ours by a button, another drawing of one of them by a button, and a stroke by keys."""
    page = browse("characters")
    page.fill("#ways", "3")
    page.keyboard.press("Tab")
    assert page.locator("#pads .pad").count() == 3
    assert page.get_attribute("#ways", "max") == "5"  # the model tells no more apart
    page.click("#fill-shapes")
    right = 0
    for _ in range(4):
        page.click("#query-pad [aria-label^=Another]")
        right += bool(best(page))
    assert right == 4
    assert page.locator("#bars li").count() == 3
    page.click("#query-pad [aria-label^=Clear]")
    page.focus("#query-pad .pad")
    for key in ("Space", "ArrowDown", "ArrowDown", "ArrowRight", "Space", "ArrowRight"):
        page.keyboard.press(key)
    assert page.get_attribute("#query-pad .pad", "aria-label") == "The question, 1 strokes"
    assert best(page) in "ABC"


def open_picture(page, place, file):
    """Opens a file in a pad, and waits until it is decoded."""
    page.click(f"{place} [aria-label^=Clear]")
    page.set_input_files(f"{place} input[type=file]", file)
    page.wait_for_selector(f"{place} .pad[aria-label$='a picture']")


@pytest.mark.slow
@needs_omniglot
def test_real_characters_as_files_and_as_an_episode(browse, tmp_path):
    page = browse("characters")
    drawings = np.load(DATA / "omniglot" / "images_evaluation.npz")["images"]
    chosen = (3, 120, 260, 410, 600)
    files = {}
    for number in chosen:
        for which in (0, 7):
            files[number, which] = tmp_path / f"{number}-{which}.png"
            Image.fromarray(np.where(drawings[number, which], 255, 0).astype(np.uint8)).save(files[number, which])
    for number, picture in zip(range(1, 6), chosen, strict=True):
        open_picture(page, f"#pads .example:nth-child({number})", files[picture, 0])
    settle(page)
    right = 0
    for letter, picture in zip("ABCDE", chosen, strict=True):
        open_picture(page, "#query-pad", files[picture, 7])
        right += best(page) == letter
    assert right >= 4
    page.click("#draw-episode")
    told(page, "query-score", "right")
    settle(page)
    assert int(page.inner_text("#query-score").split()[0]) >= 3
    assert page.locator("#query-list button").count() == 5


@pytest.mark.slow
def test_a_curve_grows_while_a_run_trains(browse, folder):
    page = browse("training", width=1000)
    page.wait_for_selector("#runs li[data-run=mtnet]")
    assert page.locator("#chart path.after").count() == 2
    options = ("--steps", 10_000_000, "--log-every", 100, "--save-every", 1, "--hidden", 4, "--no-report")
    process = start("train", "maml", "sinusoid", "--run", folder / "live", *options)
    try:
        page.wait_for_selector("#runs li.live[data-run=live]", timeout=180_000)
        rows = lambda: int(page.get_attribute("#chart path.after[data-run=live]", "data-rows") or 0)
        page.wait_for_selector("#chart path.after[data-run=live]", state="attached")
        first, drawn = rows(), page.get_attribute("#chart path.after[data-run=live]", "d")
        deadline = time.monotonic() + 60
        while rows() <= first + 3 and time.monotonic() < deadline:
            page.wait_for_timeout(200)
        assert rows() > first + 3
        assert page.get_attribute("#chart path.after[data-run=live]", "d") != drawn
        assert "training" in page.inner_text("#runs li[data-run=live] .hint")
    finally:
        stop(process)
    page.uncheck("#runs li[data-run=maml] input")
    assert page.locator("#chart path.after").count() == 2
    ticks = page.locator("#chart .tick-label").all_text_contents()
    page.uncheck("#log-scale")
    assert page.locator("#chart .tick-label").all_text_contents() != ticks
    page.check("[name=what][value=validation]")
    page.focus("#chart svg")
    page.keyboard.press("End")
    assert "step" in page.inner_text("#chart .reading")


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),
        (1440, "light"),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in [(390, "light"), (1440, "dark")]),
    ],
)
def test_no_serious_fault_of_accessibility_and_no_overflow(browse, width, scheme):
    page = browse(width=width, scheme=scheme)
    for tab in TABS:
        page.click(f"#tab-{tab}")
        page.click({"curves": "#draw-task", "characters": "#fill-shapes"}.get(tab, "#tab-training"))
        settle(page)
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.locator("main :is(button, input, select, svg, canvas)").evaluate_all(
            "all => Math.max(...all.map(one => one.getBoundingClientRect().right))"
        )
        assert outside <= width + 1


def test_the_description_of_the_service_has_no_fault_of_accessibility(chromium, url):
    page = chromium.new_page(viewport={"width": 390, "height": 900})
    page.goto(f"{url}/docs")
    assert faults(page) == []
    page.close()


def test_on_a_phone_no_button_breaks_and_like_things_stand_in_one_row(browse):
    page = browse(width=390)
    box = lambda name: page.locator(f"#{name}").bounding_box()
    assert len({(box(name)["y"], box(name)["height"]) for name in ("remove-point", "undo", "clear")}) == 1
    page.click("#tab-training")
    settle(page)
    assert box("log-scale")["y"] == box("smooth")["y"]
    assert box("log-scale")["x"] == page.locator("#chart").bounding_box()["x"]


@pytest.mark.slow
def test_every_control_is_reached_by_tab_and_shows_it(browse):
    page = browse()
    page.click("#draw-task")
    settle(page)
    page.focus(".skip")
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        told = page.evaluate(
            """() => { const at = document.activeElement, look = getComputedStyle(at);
            const name = at.id || at.getAttribute('aria-label') || at.textContent || at.parentElement.textContent;
            return at === document.body ? null : [name,
            look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) >= 2]; }"""
        )
        if told is None:
            break
        reached.append(told)
    names = [name for name, _ in reached]
    for name in ("tab-curves", "draw-task", "undo", "clear", "steps", "pace", "play-steps", "as-trained", "show-truth"):
        assert name in names
    assert "Plot of support points and adapted curves" in names
    assert all(visible for _, visible in reached)


def test_the_page_may_load_nothing_from_elsewhere(browse, url):
    page = browse()
    answer = page.request.get(url)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    written = answer.text()
    assert not re.search(r"<style|\sstyle=|<script>|\son\w+=", written)
    static = Path(__file__).parents[1] / "fewstep" / "serve" / "static"
    for path in static.iterdir():
        hosts = set(re.findall(r"https?://[\w.]+", path.read_text()))
        assert hosts <= {"http://www.w3.org"}, path.name


@pytest.mark.slow
def test_a_token_is_asked_for(chromium, folder):
    with server(folder / "maml", "--token", "sesame") as (url, _):
        page = chromium.new_page()
        page.goto(url)
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        told(page, "token-remark", "not the server")
        page.fill("#token", "sesame")
        page.keyboard.press("Enter")
        page.wait_for_selector("body[data-ready]")
        assert page.locator("#legend .key").count() >= 2
        page.reload()
        page.wait_for_selector("body[data-ready]")
        assert not page.locator("#token-dialog").is_visible()
        page.close()


@pytest.mark.slow
def test_what_goes_wrong_is_said_in_words(chromium, folder):
    with server(folder / "maml", "--points", 2) as (url, process):
        page = chromium.new_page()
        page.goto(url)
        page.wait_for_selector("body[data-ready]")
        page.click("#tab-characters")
        assert page.locator("#characters-none").is_visible()
        page.click("#tab-training")
        page.wait_for_selector("#training-none")
        page.click("#tab-curves")
        page.click("#draw-task")  # as many points as the server takes
        settle(page)
        assert page.locator("#plot .point").count() == 2
        assert not page.locator("#trouble").is_visible()
        page.click("#plot svg", position={"x": 100, "y": 100})
        page.wait_for_selector("#trouble:not([hidden])")
        assert "2" in page.inner_text("#trouble")
        assert stop(process) == 0
        page.click("#clear")
        page.click("#plot svg")
        told(page, "trouble", "does not answer")
        page.close()


@pytest.mark.slow
def test_play_trains_serves_and_stops(tmp_path):
    process = start("play", "--runs", tmp_path / "play", "--port", 0, "--no-browser", "--quick")
    url = heard(process, r"The playground is at (\S+)")[1]
    import urllib.request

    models = json.loads(urllib.request.urlopen(f"{url}/v1/models").read())["models"]
    assert {model["name"] for model in models} == {"maml", "tnet", "mtnet", "omniglot-mtnet-5way"}
    began = time.monotonic()
    assert stop(process) == 0
    assert time.monotonic() - began < 20
