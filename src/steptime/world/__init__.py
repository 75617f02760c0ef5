"""Being one rank among many: what the launcher said, joining, leaving. Free of torch itself."""

from steptime.world.environment import (
    SINGLE,
    Launcher,
    LostContactError,
    World,
    check_ranks,
    detect,
)

__all__ = ["SINGLE", "Launcher", "LostContactError", "World", "check_ranks", "detect"]
