#include "daemon/rpc/admin_service.h"

#include <sys/utsname.h>
#include <unistd.h>

#include "base/error_reason.h"
#include "base/utf8.h"
#include "base/version.h"

namespace stageload::rpc {
namespace {

v1::StartedBy ToProto(StartedBy started_by) {
  switch (started_by) {
    case StartedBy::kUser:
      return v1::STARTED_BY_USER;
    case StartedBy::kAutostart:
      return v1::STARTED_BY_AUTOSTART;
    case StartedBy::kService:
      return v1::STARTED_BY_SERVICE;
  }
  return v1::STARTED_BY_UNSPECIFIED;
}

}  // namespace

void AdminService::GetVersion(const v1::GetVersionRequest&,
                              UnaryCall<v1::GetVersionResponse> call) {
  v1::GetVersionResponse response;
  response.set_version(kVersion);
  response.set_pid(getpid());
  response.set_start_time_ns(absl::ToUnixNanos(parts_.start_time));
  response.set_api_level(kApiLevel);
  response.set_dry_run(parts_.dry_run);
  response.set_started_by(ToProto(parts_.started_by));
  response.set_state_directory(parts_.state_directory);
  utsname system = {};
  if (uname(&system) == 0) response.set_platform(system.sysname);
  call.Answer(response);
}

void AdminService::Shutdown(const v1::ShutdownRequest&, UnaryCall<v1::ShutdownResponse> call) {
  v1::ShutdownResponse response;
  response.set_pid(getpid());
  call.Answer(response);
  // Stopping waits for calls that are being answered, this one too.
  parts_.on_shutdown();
}

void AdminService::GetConfig(const v1::GetConfigRequest&, UnaryCall<v1::GetConfigResponse> call) {
  const ConfigView view = parts_.config();
  v1::GetConfigResponse response;
  response.set_path(ToUtf8(view.path));
  response.set_load_time_ns(absl::ToUnixNanos(view.load_time));
  for (const SettingView& setting : view.settings) {
    v1::Setting& filled = *response.add_settings();
    filled.set_key(setting.key);
    if (setting.value) filled.set_value(ToUtf8(*setting.value));
    filled.set_origin(ToUtf8(setting.origin));
  }
  call.Answer(response);
}

void AdminService::ReloadConfig(const v1::ReloadConfigRequest&,
                                UnaryCall<v1::ReloadConfigResponse> call) {
  const absl::StatusOr<std::vector<SettingChange>> changes = parts_.reload_config();
  if (!changes.ok()) return call.Fail(WithReason(changes.status(), kInvalidConfig));
  v1::ReloadConfigResponse response;
  response.set_path(ToUtf8(parts_.config().path));
  for (const SettingChange& change : *changes) {
    v1::SettingChange& filled = *response.add_changes();
    filled.set_key(change.key);
    if (change.before) filled.set_old_value(ToUtf8(*change.before));
    if (change.after) filled.set_new_value(ToUtf8(*change.after));
    filled.set_needs_restart(change.needs_restart);
  }
  call.Answer(response);
}

}  // namespace stageload::rpc
