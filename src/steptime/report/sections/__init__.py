"""The sections of the page: each module defines one as SECTION, and its HTML is beside it."""
