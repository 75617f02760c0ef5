"""Being one rank among many: reading the launcher's variables, joining, leaving. Without torch."""

from steptime.world.environment import (
    SINGLE,
    Launcher,
    LostContactError,
    World,
    check_ranks,
    detect,
)

__all__ = ["SINGLE", "Launcher", "LostContactError", "World", "check_ranks", "detect"]
