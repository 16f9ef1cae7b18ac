// Jobs that a damaged store no longer knows, as their folders tell of them: a lost row may cost a
// job its name and its limits, never the job itself.
//
// Threading: on the engine's thread.
#ifndef STAGELOAD_DAEMON_ENGINE_ROWS_FROM_FOLDERS_H_
#define STAGELOAD_DAEMON_ENGINE_ROWS_FROM_FOLDERS_H_

#include "daemon/host/host.h"
#include "daemon/jobs/jobs.h"
#include "daemon/store/store.h"

namespace stageload::engine {

// A row and an event for each job folder without a row: one that runs is RUNNING, one that has
// ended has its result, one that never ran waits, held, since what it was to wait for is not known.
// All limits are the defaults.
store::Batch RowsFromFolders(const jobs::Jobs& jobs, store::Store& store, host::Host& host);

}  // namespace stageload::engine

#endif  // STAGELOAD_DAEMON_ENGINE_ROWS_FROM_FOLDERS_H_
