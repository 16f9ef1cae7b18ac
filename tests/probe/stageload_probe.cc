// stageload-probe: prints what the daemon would read of this machine now, as one JSON document; the
// same as `stageloadd --probe`, in a program that needs none of its libraries.
#include <cstdio>
#include <memory>

#include "daemon/host/host.h"
#include "daemon/host/probe.h"

int main(int argc, char**) {
  if (argc > 1) {
    std::fputs("usage: stageload-probe\nPrints one reading of this machine as JSON.\n", stderr);
    return 2;
  }
  const std::unique_ptr<stageload::host::Host> host = stageload::host::NewLocalHost();
  const stageload::host::Probe probe = stageload::host::TakeProbe(*host);
  std::puts(probe.json.c_str());
  return probe.whole ? 0 : 1;
}
