"""The playground of a fresh install, where nothing has been downloaded: its characters come with the package."""

import csv

import browsing
import numpy as np
import pytest
from browsing import MARKS, heard, held, settle, start, stop, told
from helpers import DATA, needs_omniglot
from serving import begun

from fewstep import data
from fewstep.data.omniglot import omniglot_splits

chromium, browse = browsing.chromium, browsing.browse
pytestmark = MARKS


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    home, runs = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("runs")
    begun(runs, "maml")
    nowhere = {"HOME": str(home), "FEWSTEP_DATA": None, "FEWSTEP_CACHE": None, "XDG_CACHE_HOME": None}
    process = start("play", "--runs", runs, "--port", 0, "--no-browser", **nowhere)
    yield heard(process, r"The playground is at (\S+)")[1]
    assert stop(process) == 0


@pytest.mark.slow
def test_a_random_test_episode_without_data(browse):
    page = browse("characters")
    page.click("#draw-episode")
    told(page, "query-score", "right")
    settle(page)
    assert not page.locator("#episode-remark").is_visible()
    assert page.locator("#query-list button").count() == 5
    assert int(page.inner_text("#query-score").split()[0]) >= 3
    page.click("#pads .example:first-child [aria-label^='A random']")
    settle(page)
    assert page.get_attribute("#pads .example:first-child .pad", "aria-label").endswith("a picture")


@pytest.mark.slow
def test_probabilities_of_another_drawing_are_taken_away(browse):
    page = browse("characters")
    page.click("#draw-episode")
    told(page, "query-score", "right")
    settle(page)
    shares = lambda: page.locator("#bars .figure").all_inner_texts()
    assert any(text[0].isdigit() for text in shares())
    with held(page, "**/predict"):
        page.click("#query-list button:last-child")
        told(page, "verdict", "Waiting for the server")
        assert not any(text[0].isdigit() for text in shares())
    settle(page)
    assert any(text[0].isdigit() for text in shares())
    assert page.locator("#verdict strong").count() == 1


def test_the_characters_of_the_package_are_test_characters():
    sample = data.load("omniglot", "sample", size=28)
    assert sample.images.shape == (400, 28, 28, 1)
    assert set(sample.counts.tolist()) == {20}
    assert omniglot_splits(sample.names, "vinyals")["test"] == sample.names


@needs_omniglot
def test_they_are_the_same_as_in_the_whole_set():
    sample, place = data.load("omniglot", "sample", size=105), DATA / "omniglot"
    with (place / "characters.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    name = lambda row: f"{row['alphabet']}/{row['character']}"
    assert {*sample.names} <= {*omniglot_splits(tuple(sorted(map(name, rows))), "maml")["test"]}
    evaluation = [name(row) for row in rows if row["split"] == "images_evaluation"]
    drawings = np.load(place / "images_evaluation.npz")["images"]
    both = [one for one in sample.names if one in evaluation]
    assert len(both) > 5
    for one in both:
        np.testing.assert_array_equal(sample.of(one)[..., 0] == 255, drawings[evaluation.index(one)])
