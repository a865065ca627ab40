"""What the Ray actors of an application have in common."""

from __future__ import annotations

RAY_NAMESPACE = "paradraft"  # of their names
RESTART_PAUSE_S = 1.0  # before one that died is started again
