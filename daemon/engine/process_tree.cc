#include "daemon/engine/process_tree.h"

#include <algorithm>

namespace stageload::engine {

// Finds the client of each process of one table by walking up to the first ancestor that is known,
// remembering each answer on the way.
class ProcessTree::Resolver {
 public:
  Resolver(const ProcessTree& tree, const std::vector<host::Process>& table)
      : tree_(tree), table_(table) {
    for (const auto& [id, client] : tree.roots_) {
      const host::Process* root = Find(client.root.pid);
      const bool there = root != nullptr && root->identity == client.root;
      if (there) known_[client.root.pid] = id;
      // The session of a shim that ended just now is still its own: nobody got its pid yet.
      if (client.kind == Root::kShim && (there || (client.was_there && root == nullptr))) {
        sessions_[client.root.pid] = id;
      }
    }
    // While a member lives its session does too, and that is nobody else's: also when the process
    // that leads it, the shim or another, is gone.
    for (const auto& [identity, id] : tree.members_) AddSessionOf(identity, id);
    for (const auto& [id, client] : tree.roots_) AddSessionOf(client.root, id);
    for (const auto& [identity, id] : tree.members_) makers_.emplace(identity.start, id);
    for (const auto& [id, client] : tree.roots_) makers_.emplace(client.root.start, id);
  }

  bool IsThere(const core::ProcessIdentity& identity) const {
    const host::Process* process = Find(identity.pid);
    return process != nullptr && process->identity == identity;
  }
  std::optional<core::JobId> ClientOf(const host::Process& process) {
    const auto known = known_.find(process.identity.pid);
    if (known != known_.end()) return known->second;
    // Set before the walk goes on, so that a table that was read while it changed and has a loop in
    // it ends here.
    known_[process.identity.pid] = std::nullopt;
    const std::optional<core::JobId> client = Look(process);
    known_[process.identity.pid] = client;
    return client;
  }

 private:
  const host::Process* Find(std::int32_t pid) const {
    const auto found = std::lower_bound(
        table_.begin(), table_.end(), pid,
        [](const host::Process& process, std::int32_t p) { return process.identity.pid < p; });
    return found != table_.end() && found->identity.pid == pid ? &*found : nullptr;
  }

  // A guarded command is in the session of the terminal that it was started from.
  void AddSessionOf(const core::ProcessIdentity& member, core::JobId id) {
    const auto client = tree_.roots_.find(id);
    if (client == tree_.roots_.end() || client->second.kind == Root::kMember) return;
    if (IsThere(member)) sessions_.emplace(Find(member.pid)->session, id);
  }

  std::optional<core::JobId> Look(const host::Process& process) {
    const auto kept = tree_.members_.find(process.identity);
    if (kept != tree_.members_.end()) return kept->second;
    if (process.identity.pid == tree_.own_) return std::nullopt;
    // A "parent" that is younger than its child is another process that got the pid.
    const host::Process* parent = Find(process.parent);
    if (parent != nullptr && parent->identity.start <= process.identity.start) {
      const std::optional<core::JobId> client = ClientOf(*parent);
      if (client) return client;
    }
    // Who lost its parent is still of who made it, where the platform remembers that.
    if (process.parent_at_fork != 0) {
      const auto maker = makers_.find(process.parent_at_fork);
      if (maker != makers_.end()) return maker->second;
    }
    const auto session = sessions_.find(process.session);
    if (session != sessions_.end()) return session->second;
    return std::nullopt;
  }

  const ProcessTree& tree_;
  const std::vector<host::Process>& table_;
  std::map<std::int32_t, std::optional<core::JobId>> known_;  // by pid
  std::map<std::int32_t, core::JobId> sessions_;
  std::map<std::uint64_t, core::JobId> makers_;  // members and roots, by what identifies them alone
};

void ProcessTree::Add(core::JobId id, const core::ProcessIdentity& root, Root kind) {
  roots_[id] = {.root = root, .kind = kind, .was_there = true};
}

void ProcessTree::AddMembers(core::JobId id, const std::vector<core::ProcessIdentity>& processes) {
  for (const core::ProcessIdentity& process : processes) {
    // A daemon that one of its programs has started is left behind by it, too.
    if (process.pid != own_) members_.emplace(process, id);
  }
}

void ProcessTree::Remove(core::JobId id) {
  roots_.erase(id);
  living_.erase(id);
  std::erase_if(members_, [id](const auto& member) { return member.second == id; });
}

void ProcessTree::Update(const std::vector<host::Process>& table) {
  living_.clear();
  if (roots_.empty()) return;
  Resolver resolver(*this, table);
  std::map<core::ProcessIdentity, core::JobId> members;
  for (const host::Process& process : table) {
    const std::optional<core::JobId> id = resolver.ClientOf(process);
    if (!id) continue;
    const auto root = roots_.find(*id);
    if (root == roots_.end()) continue;
    const bool is_root = root->second.root == process.identity;
    if (is_root && root->second.kind == Root::kShim) continue;
    members.emplace(process.identity, *id);
    if (process.state == 'Z' || process.state == 'X') continue;
    std::vector<core::ProcessIdentity>& living = living_[*id];
    living.insert(is_root ? living.begin() : living.end(), process.identity);
  }
  members_ = std::move(members);
  for (auto& [id, client] : roots_) client.was_there = resolver.IsThere(client.root);
}

std::vector<core::ProcessIdentity> ProcessTree::MembersOf(core::JobId id) const {
  const auto found = living_.find(id);
  return found == living_.end() ? std::vector<core::ProcessIdentity>{} : found->second;
}

std::optional<core::JobId> ProcessTree::ClientOf(const core::ProcessIdentity& process) const {
  const auto member = members_.find(process);
  if (member != members_.end()) return member->second;
  return ClientOfRoot(process);
}

std::optional<core::JobId> ProcessTree::ClientOfRoot(const core::ProcessIdentity& root) const {
  for (const auto& [id, client] : roots_) {
    if (client.root == root) return id;
  }
  return std::nullopt;
}

}  // namespace stageload::engine
