// The public face of SessionCore.
#include "stageload/session.h"

#include <utility>

#include "client/lib/parent.h"
#include "client/lib/session_core.h"

namespace stageload {

using client::LeaveToParent;
using client::SessionCore;

Session::Session(SessionOptions options)
    : core_(std::make_shared<SessionCore>(std::move(options))) {
  core_->Start();
}

Session::~Session() {
  if (core_->InChild()) {
    LeaveToParent(std::move(core_));
  } else {
    core_->Close();
  }
}

Lease Session::Acquire(const std::string& stage, std::int64_t memory_bytes,
                       const AcquireOptions& options) {
  return core_->Acquire(stage, memory_bytes, options);
}

std::optional<Lease> Session::TryAcquire(const std::string& stage, std::int64_t memory_bytes) {
  AcquireOptions options;
  options.timeout = std::chrono::nanoseconds(0);
  try {
    return core_->Acquire(stage, memory_bytes, options);
  } catch (const NoRoom&) {
    return std::nullopt;
  }
}

bool Session::Report(const std::vector<Gauge>& gauges) { return core_->Report(gauges); }

bool Session::Mark(const std::string& note) {
  v1::Mark mark;
  mark.set_kind("mark");
  mark.set_note(note);
  return core_->Tell(std::move(mark));
}

bool Session::Stage(const std::string& name) {
  v1::Mark mark;
  mark.set_kind("stage");
  mark.set_stage(name);
  return core_->Tell(std::move(mark));
}

std::optional<StopRequest> Session::stop_requested() const { return core_->stop_requested(); }
std::stop_token Session::stop_token() const { return core_->stop_token(); }
std::int64_t Session::client_id() const { return core_->client_id(); }
bool Session::joined() const { return core_->joined(); }

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Release();
  core_ = std::move(other.core_);
  key_ = other.key_;
  stage_ = std::move(other.stage_);
  memory_bytes_ = other.memory_bytes_;
  forced_ = other.forced_;
  managed_ = other.managed_;
  waited_ = other.waited_;
  return *this;
}

Lease::~Lease() { Release(); }

void Lease::Release() noexcept {
  if (core_ == nullptr) return;
  const std::shared_ptr<SessionCore> core = std::move(core_);
  core_ = nullptr;
  if (core->InChild()) return LeaveToParent(core);
  core->Release(key_);
}

}  // namespace stageload
