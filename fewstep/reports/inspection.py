"""The page of `fewstep inspect`: what each layer's mask lets a task move, and the metric that T makes there."""

from pathlib import Path

from fewstep.files import write_text
from fewstep.inspection import Report
from fewstep.pages import heading, note, page, panels, paragraph, table
from fewstep.reports import plots


def write_inspection(path: Path, name: str, report: Report) -> Path:
    """Writes the page of one model."""
    head = ["layer", "width", "updated", "rank of T diag(m) T'", "condition of T"]
    body = [
        [row.path, row.width, f"{row.updated:.3f}", row.rank, "-" if row.condition is None else f"{row.condition:.3g}"]
        for row in report.layers
    ]
    text = (
        f"Expected updated fraction: {report.updated_by_logit:.1%} as the mean over logits, "
        f"{report.updated_by_layer:.1%} as the mean of the layers' means, "
        f"{report.updated_by_parameter:.1%} weighted by parameters."
    )
    drawings = plots.inside(report)
    if drawings:
        spectra = panels("spectra", "Masks and metrics", drawings, "A line for each layer.")
    else:
        spectra = paragraph("This rule learns neither metric nor mask: a task moves every weight, in the plain metric.")
    write_text(path, page("fewstep inspect", [heading(f"Inside {name}", 1), table(head, body), note(text), spectra]))
    return path
