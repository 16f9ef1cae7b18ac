#include "daemon/config.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "toml++/toml.h"

namespace stageload {
namespace {

// Reads one key's value into the config; an error says what is wrong with it, without the place.
using Reader = std::function<absl::Status(const toml::node&, DaemonConfig&)>;

absl::StatusOr<Bytes> ReadBytes(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return ParseBytes(*text);
  const auto count = node.value_exact<std::int64_t>();
  if (count && *count >= 0) return Bytes(*count);
  return absl::InvalidArgumentError("needs a size such as \"8G\" or a number of bytes");
}

absl::Status Assign(const absl::StatusOr<Bytes>& bytes, std::optional<Bytes>& field) {
  if (bytes.ok()) field = *bytes;
  return bytes.status();
}

absl::Status ReadReservePercent(const toml::node& node, DaemonConfig& config) {
  const auto percent = node.value<double>();
  if (!node.is_number() || !percent || !(*percent >= 0 && *percent <= 90)) {
    return absl::InvalidArgumentError("needs a number from 0 to 90");
  }
  config.core.reserve_fraction = *percent / 100;
  return absl::OkStatus();
}

absl::Status ReadMaxPressure(const toml::node& node, DaemonConfig& config) {
  const std::string word = node.value_exact<std::string>().value_or("");
  if (word != "warn" && word != "critical") {
    return absl::InvalidArgumentError("needs \"warn\" or \"critical\"");
  }
  config.core.max_pressure = word == "warn" ? core::Pressure::kWarn : core::Pressure::kCritical;
  return absl::OkStatus();
}

// A whole number of this range.
absl::Status ReadCount(const toml::node& node, int low, int high, int& field) {
  const auto count = node.value_exact<std::int64_t>();
  if (!count || *count < low || *count > high) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs a whole number from ", low, " to ", high));
  }
  field = static_cast<int>(*count);
  return absl::OkStatus();
}

absl::Status ReadDuration(const toml::node& node, const char* example, absl::Duration& field) {
  const auto text = node.value_exact<std::string>();
  if (!text) {
    return absl::InvalidArgumentError(absl::StrCat("needs a duration such as \"", example, "\""));
  }
  const absl::StatusOr<absl::Duration> duration = ParseDuration(*text);
  if (duration.ok()) field = *duration;
  return duration.status();
}

absl::Status ReadKeepHistory(const toml::node& node, DaemonConfig& config) {
  if (absl::Status status = ReadDuration(node, "30d", config.keep_history); !status.ok()) {
    return status;
  }
  // A job would be gone before its `wait` could ask for it.
  if (config.keep_history >= absl::Minutes(1)) return absl::OkStatus();
  return absl::InvalidArgumentError("must be at least \"1m\"");
}

absl::Status ReadOnEnd(const toml::node& node, DaemonConfig& config) {
  const auto text = node.value_exact<std::string>();
  if (!text || text->empty() || text->find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        "needs a command for /bin/sh, such as \"echo $STAGELOAD_JOB_ID >>~/ended\"");
  }
  config.on_end = *text;
  return absl::OkStatus();
}

absl::Status ReadAnonymousCredit(const toml::node& node, DaemonConfig& config) {
  const auto share = node.value<double>();
  if (!node.is_number() || !share || !(*share >= 0 && *share <= 1)) {
    return absl::InvalidArgumentError("needs a number from 0 to 1");
  }
  config.core.anonymous_credit = *share;
  return absl::OkStatus();
}

absl::Status ReadGroupLimits(const toml::node& node, DaemonConfig& config) {
  constexpr char kNeeds[] = "needs a table of groups and how many of each may run, such as gpu = 1";
  const toml::table* table = node.as_table();
  if (table == nullptr) return absl::InvalidArgumentError(kNeeds);
  for (const auto& [group, value] : *table) {
    const std::string name(group.str());
    if (!ReadCount(value, 1, 100'000, config.core.group_limits[name]).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(kNeeds, "; ", name, " has something else"));
    }
  }
  return absl::OkStatus();
}

const std::map<std::string, Reader>& Readers() {
  static const auto* readers = new std::map<std::string, Reader>{
      {"memory_pool",
       [](const toml::node& node, DaemonConfig& config) {
         return Assign(ReadBytes(node), config.core.memory_pool);
       }},
      {"reserve",
       [](const toml::node& node, DaemonConfig& config) {
         return Assign(ReadBytes(node), config.core.reserve);
       }},
      {"reserve_percent", ReadReservePercent},
      {"max_pressure", ReadMaxPressure},
      {"max_queued",
       [](const toml::node& node, DaemonConfig& config) {
         return ReadCount(node, 1, 100'000, config.core.max_queued);
       }},
      {"max_sessions",
       [](const toml::node& node, DaemonConfig& config) {
         return ReadCount(node, 1, 1000, config.core.max_sessions);
       }},
      {"max_bypass",
       [](const toml::node& node, DaemonConfig& config) {
         return ReadCount(node, 0, 1000, config.core.max_bypass);
       }},
      {"settle",
       [](const toml::node& node, DaemonConfig& config) {
         return ReadDuration(node, "15s", config.core.settle);
       }},
      {"keep_history", ReadKeepHistory},
      {"on_end", ReadOnEnd},
      {"anonymous_credit", ReadAnonymousCredit},
      {"group_limits", ReadGroupLimits},
  };
  return *readers;
}

absl::Status At(const std::string& path, const toml::source_region& source,
                const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", source.begin.line, ": ", text));
}

std::string KnownKeys() {
  std::string keys;
  for (const auto& [key, reader] : Readers()) absl::StrAppend(&keys, keys.empty() ? "" : ", ", key);
  return keys;
}

absl::StatusOr<DaemonConfig> FromTable(const std::string& path, const toml::table& table) {
  DaemonConfig config;
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const auto reader = Readers().find(name);
    if (reader == Readers().end()) {
      return At(path, node.source(),
                absl::StrCat("unknown key \"", name, "\"; the keys are ", KnownKeys()));
    }
    const absl::Status status = reader->second(node, config);
    if (!status.ok()) {
      return At(path, node.source(), absl::StrCat(name, ": ", std::string(status.message())));
    }
  }
  return config;
}

// NotFound only when there is no such file.
absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr && errno == ENOENT) return absl::NotFoundError(path);
  std::string text;
  bool failed = file == nullptr;
  if (file != nullptr) {
    char buffer[4096];
    std::size_t count = 0;
    while ((count = std::fread(buffer, 1, sizeof buffer, file)) > 0) text.append(buffer, count);
    failed = std::ferror(file) != 0;  // errno is that of read(2), such as EISDIR
  }
  const int error = errno;
  if (file != nullptr) std::fclose(file);
  if (failed) {
    return absl::InvalidArgumentError(absl::StrCat("read ", path, ": ", std::strerror(error)));
  }
  return text;
}

}  // namespace

absl::StatusOr<DaemonConfig> LoadConfig(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return DaemonConfig{};
  if (!text.ok()) return text.status();
  try {
    return FromTable(path, toml::parse(*text, path));
  } catch (const toml::parse_error& error) {
    return At(path, error.source(), std::string(error.description()));
  }
}

}  // namespace stageload
