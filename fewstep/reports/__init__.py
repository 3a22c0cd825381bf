"""Reports: one HTML file each, with the pictures in it."""

from fewstep.reports.evidence import Evidence as Evidence
from fewstep.reports.evidence import gather as gather
from fewstep.reports.inspection import write_inspection as write_inspection
from fewstep.reports.report import answering as answering
from fewstep.reports.report import scores as scores
from fewstep.reports.report import sketches as sketches
from fewstep.reports.report import usual_steps as usual_steps
from fewstep.reports.report import write_report as write_report
