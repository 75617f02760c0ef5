"""Chakra: Programs as MLCommons execution traces, one ``.et`` file a rank, as ASTRA-sim reads them.

The schema is that of schema/protobuf/et_def.proto in mlcommons/chakra@21585d8.
"""

from steptime.program.chakra.read import read_chakra
from steptime.program.chakra.write import write_chakra

__all__ = ["read_chakra", "write_chakra"]
