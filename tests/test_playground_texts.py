"""The texts tab in a browser: labels and examples are typed, and the probabilities follow the sentence."""

import browsing
import pytest
from browsing import MARKS, faults, server, settle
from encoded_files import write_files

chromium, browse = browsing.chromium, browsing.browse
pytestmark = MARKS


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = write_files(tmp_path_factory.mktemp("typed"))
    with server(f"{folder}/own.py:words") as (url, _):
        yield url


def shares(page, sentence):
    """The probabilities of a sentence that is typed, by label."""
    page.fill("#sentence", sentence)
    page.wait_for_timeout(300)  # the tab asks once the hand rests
    settle(page)
    return [float(figure.strip("%")) for figure in page.locator("#text-bars .figure").all_inner_texts()]


@pytest.mark.parametrize("width", [390, pytest.param(1440, marks=pytest.mark.slow)])
def test_probabilities_move_while_you_type(browse, width):
    page = browse("texts", width=width)
    names, examples = page.locator("#labels input"), page.locator("#labels textarea")
    for number, (name, texts) in enumerate({"first": "aaa\naab", "second": "bbb\nbba"}.items()):
        names.nth(number).fill(name)
        examples.nth(number).fill(texts)
    first = shares(page, "aaaa")
    assert first[0] > 50 > first[1]
    second = shares(page, "aaaa bbbbbbbb")
    assert second[1] > 50 > second[0]
    assert page.inner_text("#text-verdict strong") == "second"
    assert "Learned from 4 examples" in page.inner_text("#text-speed")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not faults(page)
