#include "daemon/host/probe.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "base/version.h"

namespace stageload::host {
namespace {

using Json = nlohmann::ordered_json;

void Put(Json& json, const char* name, const std::optional<Bytes>& bytes) {
  if (bytes) json[name] = bytes->count();
}

Json ToJson(const core::HostSample& sample) {
  Json json = Json::object();
  if (sample.level) json["level_percent"] = sample.level->value;
  Put(json, "total_bytes", sample.total);
  Put(json, "available_bytes", sample.available);
  Put(json, "swap_used_bytes", sample.swap_used);
  Put(json, "swap_total_bytes", sample.swap_total);
  if (sample.pressure) json["pressure"] = absl::AsciiStrToUpper(core::Name(*sample.pressure));
  Put(json, "pageable_internal_bytes", sample.pageable_internal);
  Put(json, "compressed_bytes", sample.compressed);
  Put(json, "wired_bytes", sample.wired);
  Put(json, "swapped_in_total_bytes", sample.swapped_in_total);
  Put(json, "swapped_out_total_bytes", sample.swapped_out_total);
  Put(json, "gpu_wired_limit_bytes", sample.gpu_wired_limit);
  return json;
}

Json ToJson(const Process& process) {
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

class Reading {
 public:
  explicit Reading(Host& host) : host_(host) {}

  Probe Take() {
    Json json = {{"version", std::string(kVersion)},
                 {"boot_id", host_.BootId()},
                 {"page_bytes", static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE))}};
    json["clock"] = ToJson(host_.Clock());
    if (const auto sample = Read("sample", host_.Sample())) json["host"] = ToJson(*sample);
    if (const auto processes = Read("processes", host_.Processes())) {
      json["processes"] = processes->size();
    }
    if (const auto self = Read("self", host_.Find(::getpid()))) {
      json["self"] = ToJson(*self);
      LookAtSelf(self->identity, json["self"]);
    }
    if (!errors_.empty()) json["errors"] = errors_;
    // A command line may be no UTF-8, which the printer would refuse.
    return {json.dump(2, ' ', false, Json::error_handler_t::replace), errors_.empty()};
  }

 private:
  void LookAtSelf(const core::ProcessIdentity& self, Json& json) {
    if (const auto usage = Read("usage", host_.Usage(self))) {
      Put(json, "footprint_bytes", usage->footprint);
      Put(json, "swapped_bytes", usage->swapped);
    }
    if (const auto line = Read("command_line", host_.CommandLine(self))) {
      json["command_line"] = *line;
    }
  }

  template <typename Value>
  std::optional<Value> Read(const char* what, absl::StatusOr<Value> value) {
    if (value.ok()) return *std::move(value);
    errors_[what] = std::string(value.status().message());
    return std::nullopt;
  }

  Host& host_;
  Json errors_ = Json::object();
};

}  // namespace

Probe TakeProbe(Host& host) { return Reading(host).Take(); }

}  // namespace stageload::host
