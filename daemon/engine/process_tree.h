// Which processes belong to which client. A client is a whole tree: what its root started, and what
// those started, also after a parent in between has gone.
//
// Threading: one owner; no I/O (the process table comes in as a value).
#ifndef STAGELOAD_DAEMON_ENGINE_PROCESS_TREE_H_
#define STAGELOAD_DAEMON_ENGINE_PROCESS_TREE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "daemon/core/ids.h"
#include "daemon/core/process.h"
#include "daemon/host/host.h"

namespace stageload::engine {

class ProcessTree {
 public:
  enum class Root {
    kMember,  // the root is the command itself: a guarded command
    kShim,    // the root only looks after the command, leads its session and is not counted
    kOrphan,  // of a job whose shim is gone: the command, or the shim where both are
  };

  // `own` is the daemon's: neither it nor what it started belongs to who is above it, or a program
  // that has the daemon among its descendants would be stopped with it, and every job, too.
  explicit ProcessTree(std::int32_t own = 0) : own_(own) {}

  void Add(core::JobId id, const core::ProcessIdentity& root, Root kind);
  // Makes members of processes that are known in another way; at the next Update() those of them
  // that live are.
  void AddMembers(core::JobId id, const std::vector<core::ProcessIdentity>& processes);
  void Remove(core::JobId id);
  bool empty() const { return roots_.empty(); }

  // Takes in a fresh process table (ascending by pid). Who was a member stays one until it ends;
  // a child of a member becomes one, and where the platform tells whose child it was, also when
  // that member has ended since; so does, for a job, who is in a session of its shim or of a
  // member, since only they and what they started can be in those. A process under two roots
  // belongs to the nearer.
  void Update(const std::vector<host::Process>& table);

  // At the last Update(), without zombies, ascending by pid but the root first.
  std::vector<core::ProcessIdentity> MembersOf(core::JobId id) const;
  bool Contains(const core::ProcessIdentity& process) const { return members_.count(process) > 0; }
  std::optional<core::JobId> ClientOfRoot(const core::ProcessIdentity& root) const;
  // Of a root, or of a member at the last Update().
  std::optional<core::JobId> ClientOf(const core::ProcessIdentity& process) const;

 private:
  struct Client {
    core::ProcessIdentity root;
    Root kind = Root::kMember;
    bool was_there = true;  // at the last Update()
  };
  class Resolver;

  std::int32_t own_;
  std::map<core::JobId, Client> roots_;
  std::map<core::ProcessIdentity, core::JobId> members_;  // also zombies: their children count
  std::map<core::JobId, std::vector<core::ProcessIdentity>> living_;
};

}  // namespace stageload::engine

#endif  // STAGELOAD_DAEMON_ENGINE_PROCESS_TREE_H_
