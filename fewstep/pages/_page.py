"""The pages of reports: one HTML file that needs nothing else, readable on a phone.

Every function takes text and escapes it, and returns `Markup`, which is HTML and stands in others' texts as it is.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup


def page(title: str, parts: Iterable[str]) -> Markup:
    """A whole page of parts; one that is not `Markup` is text, and is escaped."""
    return _macros().page(title, list(parts)).lstrip()


def heading(text: str, level: int = 2) -> Markup:
    """A heading; a page has one of level 1."""
    return _macros().heading(text, level)


def paragraph(text: str, kind: str = "") -> Markup:
    """A paragraph; of the kind `mark`, one that warns, and of the kind `verdict`, one that recommends."""
    return _macros().paragraph(text, kind)


def note(text: str) -> Markup:
    """A paragraph of small print."""
    return paragraph(text, "note")


def link(address: str, text: str) -> Markup:
    """A link."""
    return _macros().link(address, text)


def table(head: Sequence[object], body: Sequence[Sequence[object]]) -> Markup:
    """A table; a cell whose text is a class of the style's gets that class."""
    return _macros().table(head, body)


def image(png: str, alt: str, size: int = 44) -> Markup:
    """A square image of PNG in base64; `alt` says what it shows."""
    return _macros().image(png, alt, size)


def beside(parts: Iterable[Markup]) -> Markup:
    """Parts side by side where there is room."""
    return _macros().beside(list(parts))


def panels(name: str, title: str, drawings: Sequence[Markup], caption: str) -> Markup:
    """A figure: SVG drawings side by side where there is room, under a title and above a caption."""
    return _macros().panels(name, title, drawings, caption)


@cache
def _macros() -> Any:
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    templates = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    return templates.get_template("page.html").module
