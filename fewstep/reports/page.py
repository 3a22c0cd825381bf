"""The pages of reports: one HTML file that needs nothing else, readable on a phone."""

import html
from typing import Any

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; color: #212529 }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem }
svg { width: 100%; height: auto } table { border-collapse: collapse } .wide { overflow-x: auto }
td, th { padding: .25rem .9rem .25rem 0; text-align: left; border-bottom: 1px solid #dee2e6; white-space: nowrap }
td { font-variant-numeric: tabular-nums } p.note, figcaption { color: #495057; max-width: 60rem }
figure { margin: 0 } .panel { max-width: 40rem }
.panels { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)) }
.mark { background: #fff3bf; border: 1px solid #e67700; padding: .5rem 1rem } .misses, .diverged { color: #c92a2a }
code { overflow-wrap: anywhere }
@media (max-width: 600px) { table { font-size: 12.5px } td, th { padding-right: .5rem } }
"""


def page(title: str, parts: list[str]) -> str:
    """A whole page."""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1"><link rel=icon href="data:,">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )


def table(head: list[Any], body: list[list[Any]]) -> str:
    """A table; a cell whose text is a class of the style's gets that class."""
    cell = lambda text, tag: f"<{tag}{_class(text)}>{html.escape(str(text))}</{tag}>"
    row = lambda texts, tag: "<tr>" + "".join(cell(text, tag) for text in texts) + "</tr>"
    return f"<div class=wide><table>{row(head, 'th')}{''.join(row(texts, 'td') for texts in body)}</table></div>"


def _class(text: Any) -> str:
    return f" class={text}" if text in ("misses", "diverged") else ""
