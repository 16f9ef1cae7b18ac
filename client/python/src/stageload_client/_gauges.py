"""What a GPU's allocator says that it holds. It is in no footprint, so the program must tell it.

Nothing is imported for it: what the program does not use has nothing to tell.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable


def _add(gauges: dict[str, float], name: str, read: Callable[[], Any]) -> None:
    # An older release has no such call, and some machines no such device.
    with contextlib.suppress(Exception):
        gauges[name] = float(read())


def device_gauges() -> dict[str, float]:
    gauges: dict[str, float] = {}
    torch = sys.modules.get("torch")
    mps = getattr(getattr(torch, "backends", None), "mps", None)
    if torch is not None and mps is not None and hasattr(torch, "mps") and mps.is_available():
        _add(gauges, "mps_driver_bytes", lambda: torch.mps.driver_allocated_memory())
        _add(gauges, "mps_allocated_bytes", lambda: torch.mps.current_allocated_memory())
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and getattr(cuda, "is_initialized", bool)():
        _add(gauges, "cuda_reserved_bytes", lambda: cuda.memory_reserved())
        _add(gauges, "cuda_allocated_bytes", lambda: cuda.memory_allocated())
    mlx = sys.modules.get("mlx.core")
    if mlx is not None:
        _add(gauges, "mlx_active_bytes", lambda: mlx.get_active_memory())
        _add(gauges, "mlx_cache_bytes", lambda: mlx.get_cache_memory())
    return gauges
