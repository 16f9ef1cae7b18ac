// stageload-shim FOLDER: runs the one job whose folder this is. Started by stageloadd, with one
// socket to it as descriptor 3 (start_channel.h).
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/jobs/shim/shim.h"
#include "daemon/jobs/start_channel.h"

int main(int argc, char** argv) {
  if (argc != 2 || ::fcntl(stageload::jobs::kStartChannel, F_SETFD, FD_CLOEXEC) != 0) {
    ::fputs("stageload-shim runs a job for stageloadd and is not started by hand\n", stderr);
    return 2;
  }
  const int code = stageload::jobs::RunShim(
      argv[1], stageload::jobs::Descriptor(stageload::jobs::kStartChannel));
  // Without what is run at an exit: LeakSanitizer starts a process there and waits for it for ever when
  // a stop of the job ends it with all others of the session.
  ::_exit(code);
}
