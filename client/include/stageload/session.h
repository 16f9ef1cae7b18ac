// A program that loads one thing after another, and asks before each.
//
//   stageload::SessionOptions options;
//   options.name = "render";
//   stageload::Session session(options);
//   {
//     stageload::Lease lease = session.Acquire("transformer", 13'300'000'000);
//     ...load, use and free it...
//   }  // the lease is given back here
//
// A Session registers the process with stageload's daemon, as a client with a swap budget. Each
// Lease is the right to load a declared number of bytes; Acquire waits until there is room beside
// what everybody else on the machine has been promised. The registration lives as long as the
// Session, and ends with the process, however that ends.
//
// When the daemon is restarted, the Session registers with the next one and takes its leases up
// again; those that the program holds stay valid meanwhile. SessionOptions::on_event tells.
//
// Threading: one thread of the library serves a Session, beside those few that gRPC has for the
// whole process. It makes every callback of SessionOptions, one after another, and while one runs
// it does nothing else: return soon. A Session may be used from any thread, also from its
// callbacks, but for Acquire and TryAcquire there (WRONG_THREAD). An exception that leaves a
// callback of SessionOptions ends the process. Whoever destroys a Session must see to it that no
// call of it runs, and no callback may destroy it. An idle Session takes no CPU: it waits for the
// daemon to speak. All signals are blocked in the library's thread.
//
// fork: a child has no part in its parent's Session. There every call of a Session throws (FORKED),
// and to release or destroy a Lease, or to destroy a Session, does nothing. It cannot make one of
// its own either (FORKED), since gRPC does not live through a fork: it executes a program that
// does, or is forked before the first Session of its parent.
//
// A daemon can be there and not answer, as on a machine deep in swap. It holds no call up for more
// than 2 s over its timeout, and takes back what was given up as soon as it answers. Only an
// Acquire without a timeout waits for it, for as long as its stop token is not used.
//
// Leases and deadlock: when every client waits for a lease, one is forced. A program waits in this
// sense when each of its threads that holds a lease waits for another. What does not wait at all
// (TryAcquire, or Acquire with a timeout of 0 or less) is never forced.
#ifndef STAGELOAD_SESSION_H_
#define STAGELOAD_SESSION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "stageload/error.h"
#include "stageload/telemetry.h"

namespace stageload {

namespace client {
class SessionCore;
}

// What happens when the swap put down to the session passes its budget.
enum class OverBudget { kStop, kSuspend, kWarn };

// Which growth of swap counts against the budget: its share of the machine's, so nothing hides, or
// only what its own swapped or compressed bytes account for.
enum class ChargeMode { kSystem, kOwn };

// End now. It gets no more leases.
struct StopRequest {
  std::string reason;  // "SWAP_BUDGET", "SWAP_LIMIT", "LOW_MEMORY", "CANCELLED"...
  std::string text;    // one line with the figures
  // How long until SIGTERM, where SessionOptions::enforce allowed that.
  std::chrono::nanoseconds grace{0};
};

// The charge is over four fifths of the budget, or over it under OverBudget::kWarn.
struct BudgetWarning {
  std::int64_t charge_bytes = 0;
  std::int64_t swap_budget_bytes = 0;
  std::string text;  // one line with the figures
};

// All its processes were stopped, or go on again, also since their daemon has gone. Both are told
// only after they go on.
struct Suspension {
  bool resumed = false;
  std::string reason;  // as in StopRequest, or "SUSPENDED": a user asked; empty when resumed
  std::string text;
};

// Of the way to the daemon.
struct SessionEvent {
  enum class Kind {
    kLost,      // the daemon went away; the next one is looked for
    kRestored,  // registered with the next one, leases and all
    kNoDaemon,  // none answers: told once, and looked for at leisure from now on
    kEnded,     // the daemon has ended the registration for good
  };
  Kind kind = Kind::kLost;
  std::string text;  // one line
};

struct SessionOptions {
  // For display. Empty: the name of the process's program.
  std::string name;
  // What it holds besides its leases.
  std::optional<std::int64_t> memory_bytes;
  // Swap that it may add over what was used when it registered. Default 8 GiB.
  std::optional<std::int64_t> swap_budget_bytes;
  // Stopped while the whole machine's swap is above this. Absent: no limit.
  std::optional<std::int64_t> swap_limit_bytes;
  // Its leases start only at this level or above. Default 40.
  std::optional<double> wait_free_percent;
  // May be chosen to stop while the level is below this. Default 10.
  std::optional<double> kill_free_percent;
  // Higher goes first; -1000 to 1000. Default 0.
  std::optional<std::int32_t> priority;
  // From being told to stop to SIGTERM, and from there to SIGKILL. Default 5 s.
  std::optional<std::chrono::nanoseconds> grace;
  OverBudget on_over_budget = OverBudget::kStop;
  ChargeMode charge_mode = ChargeMode::kSystem;
  // The daemon may signal it: suspend it, and end it when it was told to stop and has not ended
  // within its grace. Without this it is only told.
  bool enforce = false;
  // The process whose memory is watched, with its descendants: this one (0), a descendant, or one
  // of the same user.
  std::int32_t pid = 0;
  // The daemon's Unix socket. Empty: $STAGELOAD_SOCKET, else the user's own (docs/library.md).
  std::string socket;
  // Start a daemon where none answers. Never done when STAGELOAD_NO_AUTOSTART is set in the
  // environment.
  bool autostart = true;
  // Whether it can do without a daemon. If not, the constructor throws NoDaemon when none answers,
  // and so does Acquire when the daemon went away and no other came within ten seconds. If so, the
  // program runs on unmanaged: Acquire gives leases that are not managed() and keep nobody away,
  // until a daemon is there; then they are declared to it.
  bool require = false;

  std::function<void(const StopRequest&)> on_stop;
  std::function<void(const BudgetWarning&)> on_warning;
  // The kernel's word on memory is another one than before.
  std::function<void(Pressure, const HostSample&)> on_pressure;
  std::function<void(const Suspension&)> on_suspended;
  std::function<void(const SessionEvent&)> on_event;
};

// The right to hold what was declared, until it is released or destroyed. The holder frees the
// memory first. It may outlive its Session, and is worth nothing then.
//
// Threading: each object belongs to one thread at a time.
class Lease {
 public:
  Lease() = default;  // none
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  // Gives it back; a second time does nothing. A daemon that went away needs not be told, and one
  // that does not answer is told when it does.
  void Release() noexcept;
  // False after Release, after a move, and of Lease().
  explicit operator bool() const { return core_ != nullptr; }

  const std::string& stage() const { return stage_; }
  std::int64_t memory_bytes() const { return memory_bytes_; }
  // Granted though it may not fit: every client waited for a lease, and one had to go on.
  bool forced() const { return forced_; }
  // False when it was given without a daemon (SessionOptions::require).
  bool managed() const { return managed_; }
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  friend class client::SessionCore;

  std::shared_ptr<client::SessionCore> core_;
  std::uint64_t key_ = 0;
  std::string stage_;
  std::int64_t memory_bytes_ = 0;
  bool forced_ = false;
  bool managed_ = false;
  std::chrono::nanoseconds waited_{0};
};

// Why an Acquire waits.
struct Waiting {
  std::vector<Blocker> blockers;  // never empty
  std::int64_t position = 0;      // its place among the leases that wait, from 1
};

struct AcquireOptions {
  // How long to wait for room: not at all when it is 0 or less, and on_wait is not called then.
  // Absent: for ever, for which the largest there is does as well.
  std::optional<std::chrono::nanoseconds> timeout;
  // Called on the waiting thread, at once when it must wait and whenever what blocks it changes. An
  // exception takes the request back and comes out of Acquire.
  std::function<void(const Waiting&)> on_wait;
  // Takes the request back, from any thread. Acquire throws Cancelled, within 2 s also when the
  // daemon does not answer.
  std::stop_token stop;
};

class Session {
 public:
  // Registers. Blocks until a daemon has answered: 10 s at most where one must be started, 15 s
  // where one is there that does not answer, as one that launchd starts again may be. Error
  // INVALID_FIELD names the option, PEER_REFUSED when `pid` is not the caller's to name,
  // TOO_MANY_SESSIONS, OTHER_SOCKET when the daemon of this home listens at another socket, FORKED;
  // with an empty reason and the system's words for a socket that cannot be connected to, such as a
  // path that is too long or a file of another user. NoDaemon where one is required. It reads the
  // environment: no other thread may change that meanwhile.
  explicit Session(SessionOptions options = {});
  // Ends the registration: its leases and its places in the queue are free again.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Waits for the right to load so many bytes (above 0) on top of what the session holds now, for a
  // stage of this name (1 to 256 bytes). Throws NoRoom with the figures when time runs out, also
  // when the daemon does not answer; NeverFits, Stopped, Cancelled, NoDaemon, Error INVALID_FIELD.
  // After an exception no lease is left behind, also when it was granted in the same moment.
  [[nodiscard]] Lease Acquire(const std::string& stage, std::int64_t memory_bytes,
                              const AcquireOptions& options = {});
  // The same without waiting: nothing when there is no room now, or nobody says so. Throws all
  // else.
  [[nodiscard]] std::optional<Lease> TryAcquire(const std::string& stage,
                                                std::int64_t memory_bytes);

  // Numbers of the program's own, shown beside its footprint; each replaces the one of the same
  // name, 32 at most. Sent again to the next daemon. False when no daemon said that it heard it;
  // Error INVALID_FIELD.
  bool Report(const std::vector<Gauge>& gauges);
  // A note in the telemetry and in every recording of the process, 1 to 256 bytes. As above.
  bool Mark(const std::string& note);
  // A new stage of the program begins. As above.
  bool Stage(const std::string& name);

  // Present once the daemon asked the session to end; on_stop told it, too.
  std::optional<StopRequest> stop_requested() const;
  // The same for what takes a token. Callbacks on it run on the library's thread.
  std::stop_token stop_token() const;

  // The client's id with the daemon of now, by which `stageloadctl show` knows it; 0 without one.
  std::int64_t client_id() const;
  // Whether the process belongs to a client that was there already, such as a job that runs it:
  // then it is that client, under the terms of that one and not of SessionOptions, and its leases
  // count within what that one has declared.
  bool joined() const;

 private:
  std::shared_ptr<client::SessionCore> core_;
};

}  // namespace stageload

#endif  // STAGELOAD_SESSION_H_
