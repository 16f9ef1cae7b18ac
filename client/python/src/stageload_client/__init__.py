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

__version__ = "0.2.0"

__all__ = [
    "Blocker",
    "BudgetWarning",
    "Forked",
    "Job",
    "JobEvent",
    "Lease",
    "MemoryMeter",
    "NeverFits",
    "NoDaemon",
    "NoDaemonWarning",
    "NoRoom",
    "PressureChange",
    "ReleasedModuleError",
    "StageloadError",
    "StopRequested",
    "Suspension",
    "Waiting",
    "active_job",
]
