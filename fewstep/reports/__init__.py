"""Reports: one HTML file each, with the pictures in it."""

from fewstep.reports.report import answering as answering
from fewstep.reports.report import scores as scores
from fewstep.reports.report import sketches as sketches
from fewstep.reports.report import usual_steps as usual_steps
from fewstep.reports.report import write_report as write_report
