"""Software: what a training framework adds to what its devices and networks take."""

from steptime.predict.software.footprint import Footprint
from steptime.predict.software.software import (
    Software,
    software_file,
    software_named,
    software_names,
)

__all__ = ["Footprint", "Software", "software_file", "software_named", "software_names"]
