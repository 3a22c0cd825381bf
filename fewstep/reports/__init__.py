"""Reports: one HTML file each, with the pictures in it."""

from fewstep.reports.report import scores as scores
from fewstep.reports.report import write_report as write_report
