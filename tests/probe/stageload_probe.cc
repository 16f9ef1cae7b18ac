// stageload-probe: prints what the daemon would read of this machine now, as one JSON document.
// What cannot be read is left out. Exits with 1 when something that every machine has cannot be
// read.
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/instant.h"
#include "base/units.h"
#include "base/version.h"
#include "daemon/core/process.h"
#include "daemon/core/sample.h"
#include "daemon/host/host.h"

namespace stageload {
namespace {

using Json = nlohmann::ordered_json;

// Anything but ASCII may be no UTF-8, which the printer would refuse.
std::string Printed(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

void Put(Json& json, const char* name, const std::optional<Bytes>& bytes) {
  if (bytes) json[name] = bytes->count();
}

std::string Word(core::Pressure pressure) {
  switch (pressure) {
    case core::Pressure::kNormal:
      return "NORMAL";
    case core::Pressure::kWarn:
      return "WARN";
    case core::Pressure::kCritical:
      return "CRITICAL";
  }
  return "";
}

Json ToJson(const core::HostSample& sample) {
  Json json = Json::object();
  if (sample.level) json["level_percent"] = sample.level->value;
  Put(json, "total_bytes", sample.total);
  Put(json, "available_bytes", sample.available);
  Put(json, "swap_used_bytes", sample.swap_used);
  Put(json, "swap_total_bytes", sample.swap_total);
  if (sample.pressure) json["pressure"] = Word(*sample.pressure);
  Put(json, "pageable_internal_bytes", sample.pageable_internal);
  Put(json, "compressed_bytes", sample.compressed);
  Put(json, "wired_bytes", sample.wired);
  Put(json, "swapped_in_total_bytes", sample.swapped_in_total);
  Put(json, "swapped_out_total_bytes", sample.swapped_out_total);
  return json;
}

Json ToJson(const host::Process& process) {
  return {{"pid", process.identity.pid},
          {"start", process.identity.start},
          {"parent", process.parent},
          {"group", process.group},
          {"session", process.session},
          {"uid", process.uid},
          {"state", std::string(1, process.state)}};
}

Json ToJson(const Instant& now) {
  return {{"awake_ns", absl::ToInt64Nanoseconds(now.awake)},
          {"continuous_ns", absl::ToInt64Nanoseconds(now.continuous)},
          {"wall_ns", absl::ToUnixNanos(now.wall)}};
}

class Probe {
 public:
  Json Look() {
    Json json = {{"version", std::string(kVersion)}, {"boot_id", host_->BootId()}};
    json["clock"] = ToJson(host_->Clock());
    if (const auto sample = Read("sample", host_->Sample())) json["host"] = ToJson(*sample);
    if (const auto processes = Read("processes", host_->Processes())) {
      json["processes"] = processes->size();
    }
    if (const auto self = Read("self", host_->Find(::getpid()))) {
      json["self"] = ToJson(*self);
      LookAtSelf(self->identity, json["self"]);
    }
    if (!errors_.empty()) json["errors"] = errors_;
    return json;
  }
  bool ok() const { return errors_.empty(); }

 private:
  void LookAtSelf(const core::ProcessIdentity& self, Json& json) {
    if (const auto usage = Read("usage", host_->Usage(self))) {
      Put(json, "footprint_bytes", usage->footprint);
      Put(json, "swapped_bytes", usage->swapped);
    }
    if (const auto line = Read("command_line", host_->CommandLine(self))) {
      json["command_line"] = *line;
    }
  }

  template <typename Value>
  std::optional<Value> Read(const char* what, absl::StatusOr<Value> value) {
    if (value.ok()) return *std::move(value);
    errors_[what] = std::string(value.status().message());
    return std::nullopt;
  }

  const std::unique_ptr<host::Host> host_ = host::NewLocalHost();
  Json errors_ = Json::object();
};

}  // namespace
}  // namespace stageload

int main(int argc, char**) {
  if (argc > 1) {
    std::fputs("usage: stageload-probe\nPrints one reading of this machine as JSON.\n", stderr);
    return 2;
  }
  stageload::Probe probe;
  std::puts(stageload::Printed(probe.Look()).c_str());
  return probe.ok() ? 0 : 1;
}
