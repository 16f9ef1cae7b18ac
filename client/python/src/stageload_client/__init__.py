"""Memory leases, a memory meter and release() for ML jobs under stageload.

docs/python.md has examples; the daemon, `stageloadctl` and what they do are in the project's
README.
"""

from .errors import (
    Blocker,
    Forked,
    NeverFits,
    NoDaemon,
    NoDaemonWarning,
    NoRoom,
    ReleasedModuleError,
    StageloadError,
    StopRequested,
    Waiting,
)
from .job import (
    BudgetWarning,
    Job,
    JobEvent,
    Lease,
    PressureChange,
    Suspension,
    active_job,
)
from .meter import MemoryMeter
from .pipeline import Watched, on_call, watch_pipeline
from .release import (
    ReleaseStats,
    StillHeldWarning,
    empty_caches,
    is_released,
    module_size,
    release,
)
from .staged import Model, StagedModels, safetensors_size

__version__ = "0.2.0"

__all__ = [
    "Blocker",
    "BudgetWarning",
    "Forked",
    "Job",
    "JobEvent",
    "Lease",
    "MemoryMeter",
    "Model",
    "NeverFits",
    "NoDaemon",
    "NoDaemonWarning",
    "NoRoom",
    "PressureChange",
    "ReleaseStats",
    "ReleasedModuleError",
    "StagedModels",
    "StageloadError",
    "StillHeldWarning",
    "StopRequested",
    "Suspension",
    "Waiting",
    "Watched",
    "active_job",
    "empty_caches",
    "is_released",
    "module_size",
    "on_call",
    "release",
    "safetensors_size",
    "watch_pipeline",
]
