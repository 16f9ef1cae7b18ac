#include "daemon/settings.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace stageload {
namespace {

std::string OriginOf(const Setting& setting, const std::string& path, const Overrides& overrides) {
  if (setting.key == "log.level" && overrides.log_level) return "--log-level";
  if (setting.key == "log.format" && overrides.log_json) return "--log-json";
  return setting.line ? absl::StrCat(path, ":", *setting.line) : "default";
}

DaemonConfig Overridden(DaemonConfig config, const Overrides& overrides) {
  config.core.dry_run = overrides.dry_run;
  if (overrides.log_level) config.log.level = *overrides.log_level;
  if (overrides.log_json) config.log.json = true;
  return config;
}

// What takes a restart stays as it was, and where it was said.
void KeepUntilRestart(const DaemonConfig& before, DaemonConfig& after) {
  after.log.file_size = before.log.file_size;
  after.log.files = before.log.files;
  for (const Setting& setting : SettingsOf(before)) {
    if (!setting.needs_restart) continue;
    after.lines.erase(setting.key);
    if (setting.line) after.lines[setting.key] = *setting.line;
  }
}

std::vector<SettingChange> ChangesBetween(const DaemonConfig& before, const DaemonConfig& after) {
  const std::vector<Setting> old = SettingsOf(before);
  const std::vector<Setting> now = SettingsOf(after);
  std::vector<SettingChange> changes;
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (old[i].value == now[i].value) continue;
    changes.push_back({now[i].key, old[i].value, now[i].value, now[i].needs_restart});
  }
  return changes;
}

}  // namespace

std::string Described(const std::vector<SettingChange>& changes) {
  std::string text;
  for (const SettingChange& change : changes) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", change.key, " ",
                    change.before.value_or("unset"), " -> ", change.after.value_or("unset"),
                    change.needs_restart ? " (at the next start)" : "");
  }
  return text.empty() ? "nothing has changed" : text;
}

absl::StatusOr<std::unique_ptr<Settings>> Settings::Load(std::string path, Overrides overrides) {
  absl::StatusOr<DaemonConfig> config = LoadConfig(path);
  if (!config.ok()) return config.status();
  return std::unique_ptr<Settings>(new Settings(std::move(path), overrides, *std::move(config)));
}

Settings::Settings(std::string path, Overrides overrides, DaemonConfig config)
    : path_(std::move(path)),
      overrides_(overrides),
      config_(std::make_shared<const DaemonConfig>(Overridden(std::move(config), overrides))),
      load_time_(absl::Now()) {}

std::shared_ptr<const DaemonConfig> Settings::config() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return config_;
}

ConfigView Settings::View() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  ConfigView view = ViewOf(*config_, path_, overrides_);
  view.load_time = load_time_;
  return view;
}

absl::StatusOr<std::vector<SettingChange>> Settings::Reload(const Apply& apply) {
  const std::lock_guard<std::mutex> one(reloading_);
  absl::StatusOr<DaemonConfig> read = LoadConfig(path_);
  if (!read.ok()) return read.status();
  const std::shared_ptr<const DaemonConfig> before = config();
  DaemonConfig after = Overridden(*std::move(read), overrides_);
  std::vector<SettingChange> changes = ChangesBetween(*before, after);
  KeepUntilRestart(*before, after);
  apply(after);
  const std::lock_guard<std::mutex> lock(mutex_);
  config_ = std::make_shared<const DaemonConfig>(std::move(after));
  load_time_ = absl::Now();
  return changes;
}

ConfigView ViewOf(const DaemonConfig& config, const std::string& path, const Overrides& overrides) {
  ConfigView view{path, {}, {}};
  for (const Setting& setting : SettingsOf(Overridden(config, overrides))) {
    view.settings.push_back({setting.key, setting.value, OriginOf(setting, path, overrides)});
  }
  return view;
}

}  // namespace stageload
