#include "daemon/log.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"

namespace stageload {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kTextPattern[] = "[%Y-%m-%d %H:%M:%S.%e] [%n] [%^%l%$] %v";

// A line and the format that it is in belong together.
std::mutex format_mutex;
bool format_is_json = false;

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

LogLevel LevelOf(const std::string& event) {
  for (const char* const bad : {"store_failed", "sample_failed", "signal_refused", "store_damaged",
                                "config_refused", "stuck"}) {
    if (event == bad) return LogLevel::kError;
  }
  for (const char* const odd : {"warned", "stopping", "killed", "would_stop", "implausible",
                                "start_delayed", "result_delayed"}) {
    if (event == odd) return LogLevel::kWarn;
  }
  return event == "waits" ? LogLevel::kDebug : LogLevel::kInfo;
}

// What a decision was made on. Only what is known.
Json ToJson(const engine::Readings& readings) {
  Json json = Json::object();
  if (readings.host.level) json["level_percent"] = readings.host.level->value;
  if (readings.host.available) json["available_bytes"] = readings.host.available->count();
  if (readings.host.swap_used) json["swap_used_bytes"] = readings.host.swap_used->count();
  json["reserved_bytes"] = readings.reserved.count();
  json["pending"] = readings.pending;
  json["active"] = readings.active;
  if (readings.charge) json["charge_bytes"] = readings.charge->count();
  if (readings.swap_budget) json["swap_budget_bytes"] = readings.swap_budget->count();
  if (readings.footprint) json["footprint_bytes"] = readings.footprint->count();
  return json;
}

std::string ToText(const engine::Readings& readings) {
  std::string text;
  const auto add = [&text](const char* name, const std::string& value) {
    absl::StrAppend(&text, text.empty() ? " [" : " ", name, "=", value);
  };
  // "13.3GiB": a value has no blank in it.
  const auto tight = [](std::string value) {
    std::erase(value, ' ');
    return value;
  };
  const auto size = [&tight](Bytes bytes) { return tight(FormatBytes(bytes)); };
  if (readings.host.level) add("level", tight(FormatPercent(*readings.host.level)));
  if (readings.host.available) add("available", size(*readings.host.available));
  if (readings.host.swap_used) add("swap", size(*readings.host.swap_used));
  add("reserved", size(readings.reserved));
  add("pending", absl::StrCat(readings.pending));
  add("active", absl::StrCat(readings.active));
  if (readings.charge) add("charge", size(*readings.charge));
  if (readings.swap_budget) add("budget", size(*readings.swap_budget));
  if (readings.footprint) add("footprint", size(*readings.footprint));
  return text + "]";
}

// No line break gets into a line, whatever a job is called.
std::string OneLine(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = c == '\n' ? ';' : '?';
  }
  return text;
}

void Write(LogLevel level, const std::string& event, const std::string& text,
           std::optional<core::JobId> id, const engine::Readings* readings) {
  const auto logger = spdlog::default_logger();
  if (logger == nullptr || !logger->should_log(ToSpdlog(level))) return;
  // One id space: a session is a client that the daemon did not start, all others are jobs.
  const char* const whose =
      readings != nullptr && readings->kind == core::JobKind::kSession ? "client" : "job";
  const std::lock_guard<std::mutex> lock(format_mutex);
  if (!format_is_json) {
    logger->log(ToSpdlog(level), "{}{} {}{}", event,
                id ? absl::StrCat(" ", whose, "=", core::Value(*id)) : "", OneLine(text),
                readings != nullptr ? ToText(*readings) : "");
    return;
  }
  Json line{{"time", absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone())},
            {"level", Name(level)},
            {"event", event}};
  if (id) line[whose] = core::Value(*id);
  line["text"] = text;
  if (readings != nullptr) line["readings"] = ToJson(*readings);
  logger->log(ToSpdlog(level), "{}", line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

absl::Status OpenLog(const std::string& folder, const LogConfig& config, bool to_stderr) {
  try {
    std::vector<spdlog::sink_ptr> sinks = {std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
        folder + "/stageloadd.log", static_cast<std::size_t>(config.file_size.count()),
        static_cast<std::size_t>(config.files - 1))};
    if (to_stderr) sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    auto logger = std::make_shared<spdlog::logger>("stageloadd", sinks.begin(), sinks.end());
    logger->flush_on(spdlog::level::trace);
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::UnavailableError(absl::StrCat("open the log: ", error.what()));
  }
  ChangeLog(config);
  return absl::OkStatus();
}

void ChangeLog(const LogConfig& config) {
  const std::lock_guard<std::mutex> lock(format_mutex);
  format_is_json = config.json;
  spdlog::set_pattern(config.json ? "%v" : kTextPattern);
  spdlog::set_level(ToSpdlog(config.level));
}

void CloseLog() { spdlog::shutdown(); }

void Log(LogLevel level, const char* event, const std::string& text,
         std::optional<core::JobId> job) {
  Write(level, event, text, job, nullptr);
}

void Log(const telemetry::Event& event, const engine::Readings& readings) {
  Write(LevelOf(event.kind), event.kind, event.text, event.job, &readings);
}

}  // namespace stageload
