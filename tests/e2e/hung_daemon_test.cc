// The library and a daemon that is there and does not answer, as on a machine deep in swap: the
// real one, stopped by SIGSTOP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stageload/meter.h>
#include <stageload/session.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/library_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kMiB = 1024 * 1024;
// What the library promises is 2 s, or 15 s where one is made; the machine that tests may be slow.
constexpr seconds kSoon{8};
constexpr seconds kOnceMade{28};

// The daemon, for as long as this lives.
class Hung {
 public:
  explicit Hung(pid_t pid) : pid_(pid) { kill(pid_, SIGSTOP); }
  Hung(const Hung&) = delete;
  Hung& operator=(const Hung&) = delete;
  ~Hung() { kill(pid_, SIGCONT); }

 private:
  const pid_t pid_;
};

// What a call came to, and how long it took, each on a thread of its own: "ok", or the error's
// reason.
class Calls {
 public:
  void Make(const std::string& name, std::function<std::string()> call) {
    threads_.emplace_back([this, name, call = std::move(call)] {
      const auto begin = Clock::now();
      std::string came_to;
      try {
        came_to = call();
      } catch (const Error& error) {
        came_to = error.reason();
      }
      const std::lock_guard lock(mutex_);
      results_[name] = {came_to, Clock::now() - begin};
    });
  }
  void Join() { threads_.clear(); }
  void Expect(const std::string& name, const std::string& came_to, Clock::duration within) const {
    const auto& [what, took] = results_.at(name);
    EXPECT_EQ(what, came_to) << name;
    EXPECT_LT(took, within) << name;
    std::cout << name << ": " << what << " after " << std::chrono::duration<double>(took).count()
              << " s\n";
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::pair<std::string, Clock::duration>> results_;
  std::vector<std::jthread> threads_;
};

class HungDaemon : public LibraryTest {
 protected:
  SessionOptions Options(const std::string& name) {
    SessionOptions options;
    options.name = name;
    options.socket = paths().socket;
    options.wait_free_percent = 0;
    options.autostart = false;
    return options;
  }
  // Of each lease that was granted, whether it was given back.
  bool NothingIsHeld() {
    int held = 0;
    for (const Frame& frame : Frames()) {
      for (const Event& event : frame.events) {
        if (event.kind == "lease_granted") ++held;
        if (event.kind == "lease_released") --held;
      }
    }
    return held == 0 && !Holds("hung") && !Waits("hung");
  }
};

TEST_F(HungDaemon, HoldsUpNoCallAndKeepsNothingOfWhatWasGivenUp) {
  StartDaemon();
  StartWatch();
  Session session(Options("hung"));
  Lease held = session.Acquire("held", kMiB);
  std::stop_source stop;
  Calls calls;
  {
    const Hung hung(daemon().pid());
    calls.Make("Acquire with a token", [&] {
      AcquireOptions options;
      options.stop = stop.get_token();
      return session.Acquire("token", kMiB, options) ? "ok" : "";
    });
    calls.Make("the token", [&] {
      std::this_thread::sleep_for(milliseconds(300));
      stop.request_stop();
      return "ok";
    });
    calls.Make("Acquire with a timeout", [&] {
      AcquireOptions options;
      options.timeout = seconds(1);
      return session.Acquire("timeout", kMiB, options) ? "ok" : "";
    });
    calls.Make("TryAcquire",
               [&] { return session.TryAcquire("try", kMiB) ? "granted" : "nothing"; });
    calls.Make("Report", [&] { return session.Report({{"steps", 1}}) ? "heard" : "not heard"; });
    calls.Make("Mark", [&] { return session.Mark("warm") ? "heard" : "not heard"; });
    calls.Make("Release", [&] {
      held.Release();
      return "ok";
    });
    calls.Join();
  }
  calls.Expect("Acquire with a token", "CANCELLED", kSoon);
  calls.Expect("Acquire with a timeout", "ADMISSION_TIMEOUT", kSoon);
  calls.Expect("TryAcquire", "nothing", kSoon);
  calls.Expect("Report", "not heard", kSoon);
  calls.Expect("Mark", "not heard", kSoon);
  calls.Expect("Release", "ok", kSoon);
  // It answers again: what came to it meanwhile is asked for and given back, however it took them.
  EXPECT_TRUE(session.Mark("awake"));
  EXPECT_TRUE(Eventually([&] { return NothingIsHeld(); }));
  EXPECT_TRUE(session.Acquire("next", kMiB).managed());
}

TEST_F(HungDaemon, IsNoDaemonForWhoComesThenAndTheirsOnceItAnswers) {
  StartDaemon();
  Calls calls;
  std::optional<Session> session;
  std::optional<MemoryMeter> meter;
  std::optional<Lease> lease;
  std::atomic<int> without = 0;
  std::atomic<int> restored = 0;
  {
    const Hung hung(daemon().pid());
    calls.Make("Session", [&] {
      SessionOptions options = Options("hung");
      options.on_event = [&](const SessionEvent& event) {
        if (event.kind == SessionEvent::Kind::kNoDaemon) ++without;
        if (event.kind == SessionEvent::Kind::kRestored) ++restored;
      };
      session.emplace(options);
      lease = session->Acquire("stage", kMiB);
      return lease->managed() ? "managed" : "unmanaged";
    });
    calls.Make("Session that requires one", [&] {
      SessionOptions options = Options("strict");
      options.require = true;
      const Session strict(options);
      return "registered";
    });
    calls.Make("MemoryMeter", [&] {
      MeterOptions options;
      options.socket = paths().socket;
      options.autostart = false;
      options.require = false;
      meter.emplace(PathOf("run.jsonl"), options);
      meter->Mark("alone");
      return "ok";
    });
    calls.Make("Session that ends at once", [&] {
      const auto session_of_own = std::make_unique<Session>(Options("short"));
      return "ok";
    });
    calls.Join();
  }
  calls.Expect("Session", "unmanaged", kOnceMade);
  calls.Expect("Session that requires one", "NO_DAEMON", kOnceMade);
  calls.Expect("MemoryMeter", "ok", kOnceMade);
  // Which looks for a daemon as it is destroyed, and does not wait another 15 s for this one.
  calls.Expect("Session that ends at once", "ok", kOnceMade);
  EXPECT_TRUE(Eventually([&] { return restored > 0; }));
  EXPECT_EQ(without, 1);
  EXPECT_NE(session->client_id(), 0);
  StartWatch();
  EXPECT_TRUE(Eventually([&] { return Holds("hung"); }));
  EXPECT_TRUE(Eventually(
      [&] { return ReadFile(PathOf("run.jsonl")).find("\"sample\"") != std::string::npos; }));
  meter.reset();
  EXPECT_THAT(ReadFile(PathOf("run.jsonl")), HasSubstr("no samples for "));
}

}  // namespace
}  // namespace stageload::e2e
