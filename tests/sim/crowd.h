// Everybody who asks something of the daemon: people who submit jobs and change their minds, guards
// with a command held back, sessions that take leases and load into them. They see of the daemon
// what a client sees, and lose their streams when it goes.
//
// Threading: one owner.
#ifndef STAGELOAD_TESTS_SIM_CROWD_H_
#define STAGELOAD_TESTS_SIM_CROWD_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/sim/agenda.h"
#include "tests/sim/daemon.h"
#include "tests/sim/plan.h"
#include "tests/sim/random.h"
#include "tests/sim/world.h"

namespace stageload::sim {

class Crowd : public Users {
 public:
  Crowd(const Plan& plan, World& world, Agenda& agenda, Random random)
      : plan_(plan), world_(world), agenda_(agenda), random_(random) {}
  void Meet(Daemon& daemon) { daemon_ = &daemon; }

  // Puts down all that they will do while there are faults.
  void Arrive();
  // From here on nobody comes, and those who are there put in order what keeps things waiting.
  void Settle();
  // Cancels a session that holds a lease and will come back to the next daemon; false without one.
  bool CancelAHolder();

  // The world tells.
  void Ended(const Exit& exit);
  void DaemonGone();
  void Rebooted();

  // ---- Users ----
  const core::Submit& SubmitOf(int request) override { return At(request).ask.submit; }
  std::shared_ptr<const Program> ProgramOf(int request) override { return At(request).ask.program; }
  Folder& FolderOf(int request) override { return At(request).folder; }
  void Accepted(int request, core::JobId id) override;
  void Refused(int request) override;
  void GuardMayStart(int request) override;
  void GuardUnknown(int request) override;
  void StopRequested(int request) override;
  void LeaseQueued(int request, core::LeaseId lease) override;
  void LeaseGranted(int request, core::LeaseId lease) override;
  void LeaseDenied(int request, std::optional<core::LeaseId> lease) override;

 private:
  struct Request {
    Ask ask;
    Folder folder;
    std::optional<core::ProcessIdentity> root;  // of a guard or session
    bool there = false;                         // its CLI or its session, with an open stream
    std::optional<core::Outcome> outcome;       // of a guard's command, once it has ended
    bool over = false;                          // it asks for nothing more
    std::size_t stage = 0;
    bool asking = false;  // for a lease, and not answered yet
    std::optional<core::LeaseId> waits;
    std::vector<std::pair<core::LeaseId, Bytes>> holds;
    std::vector<Bytes> loaded_before;  // under leases of a daemon that has gone
    bool taking_up = false;            // asks for a lease of what it holds
    Bytes loaded;
  };

  Request& At(int request) { return requests_[static_cast<std::size_t>(request)]; }
  int Add(Ask ask);
  void Come(int request, int tries);
  void Meddle();
  void DoAnything();
  core::JobId AnyId();
  void ChangeTerms(core::JobId id);
  void TidyUp();
  void EndForgotten();
  void FreeMemory();
  bool IsFeasible(const core::JobRecord& record) const;
  bool IsStopped(int request);
  void After(absl::Duration span, std::function<void()> what);

  // Sessions.
  void NextStage(int request);
  void Load(int request, core::LeaseId lease, Bytes memory);
  void GiveBack(int request);
  void TakeUp(int request);
  void Leave(int request);
  void ComeBack(int request);
  void ResumeGuard(int request, absl::Duration until);

  const Plan& plan_;
  World& world_;
  Agenda& agenda_;
  Random random_;
  Daemon* daemon_ = nullptr;
  std::deque<Request> requests_;
  bool settling_ = false;
};

}  // namespace stageload::sim

#endif  // STAGELOAD_TESTS_SIM_CROWD_H_
