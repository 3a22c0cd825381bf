"""Pages: text is escaped, and nobody is kept out."""

import browsing
import pytest
from browsing import faults
from markupsafe import Markup

from fewstep.pages import heading, image, link, note, page, panels, paragraph, table

chromium = browsing.chromium
BAD = "<script>alert('&')</script>"
SAFE = "&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
DRAWING = Markup('<svg role="img" aria-label="a line" viewBox="0 0 9 9"><path d="M0 0L9 9"/></svg>')
PARTS = [
    heading("Scores", 1), paragraph("What was measured.", "mark"), note("Small print."),
    table(["", "mean", "verdict"], [["mtnet", 0.5, "meets"], ["maml", 0.7, "misses"]]),
    table([image(PNG, "class 1")], [[image(PNG, "query 1") + Markup("<br>") + "right"]]),
    panels("lines", "Lines", [DRAWING, DRAWING], Markup("A line. ") + link("lines.csv", "CSV")),
]  # fmt: skip


def test_every_function_escapes_text_and_keeps_html():
    shown = [
        heading(BAD), paragraph(BAD), note(BAD), link("a", BAD), table([BAD], [[BAD]]), image(PNG, BAD),
        panels("n", BAD, [DRAWING], BAD), page(BAD, [BAD]), page("t", [heading(BAD)]),
    ]  # fmt: skip
    for part in shown:
        assert isinstance(part, Markup)
        assert SAFE in part
        assert "<script" not in part
        assert "&amp;lt;" not in part


def test_a_page_needs_nothing_else():
    text = page("Scores", PARTS)
    assert text.startswith("<!doctype html>")
    assert "http" not in text
    assert text.count("<svg") == 2
    assert '<td class="misses">misses</td>' in text


@pytest.mark.xdist_group("playground")
@pytest.mark.skipif(browsing.CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [320, 1440])
def test_no_fault_of_accessibility(chromium, width):
    opened = chromium.new_page(viewport={"width": width, "height": 900})
    opened.set_content(page("Scores", PARTS))
    assert faults(opened) == []
    opened.set_content("<p style='color: #ddd'>faint</p>")
    assert [rule for rule in faults(opened) if rule.startswith("color-contrast")]
    opened.close()
