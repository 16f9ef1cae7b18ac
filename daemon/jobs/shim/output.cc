#include "daemon/jobs/shim/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "daemon/jobs/log_format.h"

namespace stageload::jobs {

Output::Output(Descriptor read_end, LogStream stream)
    : read_end_(std::move(read_end)), stream_(stream) {
  ::fcntl(read_end_.get(), F_SETFL, O_NONBLOCK);
}

void Output::Move(LogWriter& log) {
  std::array<char, kMaxRecordData> buffer;
  const ssize_t got = ::read(read_end_.get(), buffer.data(), buffer.size());
  if (got > 0) {
    owed_ -= got;
    log.Append(stream_, std::string_view(buffer.data(), static_cast<std::size_t>(got)),
               absl::Now());
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    read_end_.Close();
  }
}

void Output::MarkHeld() {
  int held = 0;
  if (open() && ::ioctl(read_end_.get(), FIONREAD, &held) == 0) owed_ = held;
}

}  // namespace stageload::jobs
