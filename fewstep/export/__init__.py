"""A trained run as files that need fewstep no longer."""

from fewstep.export.export import Format as Format
from fewstep.export.export import export_model as export_model
