#include "daemon/rpc/admin_service.h"

#include <sys/utsname.h>
#include <unistd.h>

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

}  // namespace stageload::rpc
