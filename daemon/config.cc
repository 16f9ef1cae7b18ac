#include "daemon/config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/closest_word.h"
#include "daemon/config_keys.h"
#include "toml++/toml.h"

namespace stageload {
namespace {

constexpr std::pair<LogLevel, const char*> kLevels[] = {{LogLevel::kTrace, "trace"},
                                                        {LogLevel::kDebug, "debug"},
                                                        {LogLevel::kInfo, "info"},
                                                        {LogLevel::kWarn, "warn"},
                                                        {LogLevel::kError, "error"}};

std::string TableOf(const std::string& name) {
  const std::size_t dot = name.find('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}
std::string WithoutTable(const std::string& name) {
  const std::size_t dot = name.find('.');
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

bool IsTable(const std::string& name) {
  const auto in_it = [&](const ConfigKey& key) { return TableOf(key.name) == name; };
  return std::any_of(ConfigKeys().begin(), ConfigKeys().end(), in_it);
}

// The key that was meant, if one is near: also by its option's name, and in another table.
const ConfigKey* Nearest(std::string word) {
  std::replace(word.begin(), word.end(), '-', '_');
  const ConfigKey* nearest = nullptr;
  int least = std::max(2, static_cast<int>(word.size() / 3)) + 1;
  for (const ConfigKey& key : ConfigKeys()) {
    const int distance = std::min(EditDistance(word, key.name),
                                  EditDistance(WithoutTable(word), WithoutTable(key.name)));
    if (distance < least) {
      least = distance;
      nearest = &key;
    }
  }
  return nearest;
}

std::string UnknownKey(const std::string& name) {
  if (const ConfigKey* meant = Nearest(name)) {
    const std::string table = TableOf(meant->name);
    if (table.empty() && !TableOf(name).empty()) {
      const bool right = WithoutTable(name) == meant->name;
      return absl::StrCat("unknown key \"", name, "\"",
                          right ? ": " : absl::StrCat("; did you mean ", meant->name, "? "),
                          right ? "what" : "What", " stands below the line [", TableOf(name),
                          "] belongs to that table; ", meant->name,
                          " is to stand above the first line in brackets");
    }
    return absl::StrCat("unknown key \"", name, "\"; did you mean ", WithoutTable(meant->name),
                        table.empty() ? "" : absl::StrCat(" in the table [", table, "]"), "?");
  }
  std::string keys;
  for (const ConfigKey& key : ConfigKeys()) {
    absl::StrAppend(&keys, keys.empty() ? "" : ", ", key.name);
  }
  return absl::StrCat("unknown key \"", name, "\"; the keys are ", keys);
}

// As it stands in the file, in one line and cut.
std::string ValueText(const toml::node& node) {
  std::ostringstream out;
  if (const auto word = node.value_exact<std::string>()) {
    out << '"' << *word << '"';
  } else {
    node.visit([&out](const auto& value) { out << value; });
  }
  std::string text = out.str();
  std::replace(text.begin(), text.end(), '\n', ' ');
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

// Reads a file's tables into a config and collects what is wrong.
class ConfigReader {
 public:
  explicit ConfigReader(std::string path) : path_(std::move(path)) {}

  void Read(const toml::table& table, const std::string& within) {
    for (const auto& [key, node] : table) {
      const std::string name = absl::StrCat(within, std::string(key.str()));
      const auto known = std::find_if(ConfigKeys().begin(), ConfigKeys().end(),
                                      [&](const ConfigKey& each) { return each.name == name; });
      if (known != ConfigKeys().end()) {
        ReadKey(*known, node);
      } else if (within.empty() && IsTable(name) && node.is_table()) {
        Read(*node.as_table(), name + ".");
      } else if (within.empty() && IsTable(name)) {
        Complain(node.source(),
                 absl::StrCat(name, ": needs a table: a line [", name, "], and below it its keys"));
      } else {
        Complain(node.source(), UnknownKey(name));
      }
    }
  }

  void Complain(const toml::source_region& source, const std::string& text) {
    complaints_.emplace_back(source.begin.line, text);
  }

  absl::StatusOr<DaemonConfig> Finish() {
    if (complaints_.empty()) return std::move(config_);
    // The table is in the order of its keys' names.
    std::stable_sort(complaints_.begin(), complaints_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const auto line = [this](std::string* out, const auto& each) {
      absl::StrAppend(out, path_, ":", each.first, ": ", each.second);
    };
    return absl::InvalidArgumentError(absl::StrJoin(complaints_, "\n", line));
  }

 private:
  void ReadKey(const ConfigKey& key, const toml::node& node) {
    const absl::Status status = key.read(node, config_);
    if (status.ok()) {
      config_.lines[key.name] = static_cast<int>(node.source().begin.line);
      return;
    }
    const std::string message(status.message());
    const std::string value = ValueText(node);
    // Those that read sizes and durations say it themselves.
    const bool told = node.is_string() && message.find(value) != std::string::npos;
    Complain(node.source(),
             absl::StrCat(key.name, ": ", message, told ? "" : absl::StrCat("; it is ", value)));
  }

  const std::string path_;
  DaemonConfig config_;
  std::vector<std::pair<toml::source_index, std::string>> complaints_;
};

// A link without its file is a mistake: somebody has made a file for us somewhere.
absl::Status Missing(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(path, error);
  if (error) return absl::NotFoundError(absl::StrCat("read ", path, ": no such file"));
  return absl::InvalidArgumentError(absl::StrCat("read ", path, ": is a symbolic link to ",
                                                 target.string(), ", which is not there"));
}

// NotFound only when there is no such file.
absl::StatusOr<std::string> ReadFile(const std::string& path) {
  // Not to wait for who writes into a named pipe.
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return Missing(path);
  std::string text;
  struct stat status {};
  bool failed = file < 0 || fstat(file, &status) != 0;
  const bool pipe = !failed && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
  while (!failed && !pipe) {
    char buffer[4096];
    const ssize_t count = read(file, buffer, sizeof buffer);
    failed = count < 0 && errno != EINTR;
    if (count == 0) break;
    if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
  }
  const int error = errno;
  if (file >= 0) close(file);
  if (pipe) return absl::InvalidArgumentError(absl::StrCat("read ", path, ": is no file"));
  if (failed) {
    return absl::InvalidArgumentError(absl::StrCat("read ", path, ": ", std::strerror(error)));
  }
  return text;
}

std::string Comment(const std::string& text) { return absl::StrCat("# ", text, "\n"); }

}  // namespace

const char* Name(LogLevel level) {
  for (const auto& [known, name] : kLevels) {
    if (known == level) return name;
  }
  return "info";
}

absl::StatusOr<LogLevel> ParseLogLevel(const std::string& text) {
  for (const auto& [level, name] : kLevels) {
    if (text == name) return level;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("needs \"trace\", \"debug\", \"info\", \"warn\" or \"error\"",
                   DidYouMean(text, {"trace", "debug", "info", "warn", "error"})));
}

absl::StatusOr<DaemonConfig> LoadConfig(const std::string& path, IfMissing if_missing) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status()) && if_missing == IfMissing::kDefaults) return DaemonConfig{};
  if (!text.ok()) return text.status();
  ConfigReader reader(path);
  try {
    reader.Read(toml::parse(*text, path), "");
  } catch (const toml::parse_error& error) {
    reader.Complain(error.source(), std::string(error.description()));
  }
  return reader.Finish();
}

std::vector<Setting> SettingsOf(const DaemonConfig& config) {
  std::vector<Setting> settings;
  for (const ConfigKey& key : ConfigKeys()) {
    Setting setting{key.name, key.show(config), std::nullopt, key.needs_restart};
    const auto line = config.lines.find(key.name);
    if (line != config.lines.end()) setting.line = line->second;
    settings.push_back(std::move(setting));
  }
  return settings;
}

std::string ConfigTemplate() {
  std::string text =
      "# The settings of stageload. Every key is optional, and stands here with its default, or\n"
      "# with an example where there is none. Take the # away from those that you change, then:\n"
      "#   stageloadctl config check     # what is wrong with it\n"
      "#   stageloadctl config reload    # has the daemon that runs read it\n"
      "# A key below a line in brackets belongs to that table; those of none stand above the "
      "first.\n"
      "# Sizes are such as \"8G\" or \"512M\", durations such as \"90s\", \"30m\" or \"1d\".\n";
  const DaemonConfig defaults;
  std::string table;
  for (const ConfigKey& key : ConfigKeys()) {
    if (TableOf(key.name) != table) {
      table = TableOf(key.name);
      absl::StrAppend(&text, "\n[", table, "]\n");
      if (table == "defaults") {
        text += Comment("What holds for jobs and guarded commands that do not say otherwise.");
      }
    }
    const std::optional<std::string> value = key.show(defaults);
    absl::StrAppend(&text, "\n", Comment(key.does),
                    key.needs_restart ? Comment("Takes a restart of the daemon.") : "");
    if (!value) text += Comment("There is no default; an example:");
    absl::StrAppend(&text, "#", WithoutTable(key.name), " = ", value.value_or(key.example), "\n");
  }
  return text;
}

}  // namespace stageload
