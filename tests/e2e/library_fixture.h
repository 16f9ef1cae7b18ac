// The real daemon, programs of the library, and the telemetry as the library tells it.
#ifndef STAGELOAD_TESTS_E2E_LIBRARY_FIXTURE_H_
#define STAGELOAD_TESTS_E2E_LIBRARY_FIXTURE_H_

#include <stageload/watch.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {

class LibraryTest : public DaemonTest {
 protected:
  ChildProcess Start(const Arguments& argv) {
    return ChildProcess({.argv = argv,
                         .environment = Environment({"STAGELOAD_NO_AUTOSTART=1"}),
                         .directory = folder(),
                         .input = "",
                         .output = absl::StrCat(folder(), "/output/", ++programs_, ".program")});
  }
  // session_program NAME ...
  ChildProcess StartSession(const std::string& name, const Arguments& what) {
    return Start(Arguments{STAGELOAD_E2E_SESSION, paths().socket, name} + what);
  }
  ChildProcess StartHolder(const std::string& name, int mib) {
    return StartSession(name,
                        {"hold", "stage of " + name, absl::StrCat(mib), PathOf("end " + name)});
  }
  void EndHolder(const std::string& name) { Touch(PathOf("end " + name)); }

  void StartWatch() {
    WatchOptions options;
    options.socket = paths().socket;
    options.autostart = false;
    options.since_sequence = 0;
    watch_ = std::make_unique<Watch>(options, [this](const Frame& frame) {
      const std::lock_guard lock(mutex_);
      frames_.push_back(frame);
    });
  }
  void StopWatch() { watch_.reset(); }
  std::vector<Frame> Frames() {
    const std::lock_guard lock(mutex_);
    return frames_;
  }
  // In the newest frame.
  bool IsClient(const std::string& name) { return ClientOf(name).has_value(); }
  std::optional<ClientSample> ClientOf(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (frames_.empty()) return std::nullopt;
    for (const ClientSample& client : frames_.back().clients) {
      if (client.name == name) return client;
    }
    return std::nullopt;
  }
  bool Holds(const std::string& name) {
    const auto client = ClientOf(name);
    return client && !client->leases.empty();
  }
  bool Waits(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (frames_.empty()) return false;
    for (const WaitingRequest& request : frames_.back().waiting) {
      if (request.name == name) return true;
    }
    return false;
  }

 private:
  int programs_ = 0;
  std::mutex mutex_;
  std::vector<Frame> frames_;
  std::unique_ptr<Watch> watch_;
};

}  // namespace stageload::e2e

#endif  // STAGELOAD_TESTS_E2E_LIBRARY_FIXTURE_H_
