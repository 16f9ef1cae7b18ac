#include "daemon/jobs/spec_file.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "daemon/jobs/little_endian.h"

namespace stageload::jobs {
namespace {

constexpr std::string_view kFormat = "stageload spec 1\n";

void PutString(std::string& out, std::string_view value) {
  PutNumber<std::uint64_t>(out, value.size());
  out.append(value);
}

void PutStrings(std::string& out, const std::vector<std::string>& values) {
  PutNumber<std::uint64_t>(out, values.size());
  for (const std::string& value : values) PutString(out, value);
}

// Takes values off the front; after the first that is not there, all are empty and `ok` is false.
class Taker {
 public:
  explicit Taker(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool done() const { return ok_ && bytes_.empty(); }

  std::uint64_t Number() {
    const std::string_view bytes = Take(8);
    return ok_ ? GetNumber<std::uint64_t>(bytes.data()) : 0;
  }
  std::string String() { return std::string(Take(Number())); }
  std::vector<std::string> Strings() {
    std::vector<std::string> values;
    for (std::uint64_t left = Number(); left > 0 && ok_; --left) values.push_back(String());
    return values;
  }
  std::string_view Take(std::uint64_t size) {
    if (size > bytes_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace

std::string EncodeSpec(const core::JobSpec& spec) {
  std::string out(kFormat);
  PutStrings(out, spec.argv);
  PutString(out, spec.working_directory);
  PutStrings(out, spec.environment);
  PutNumber<std::uint64_t>(out, spec.umask);
  PutNumber<std::uint64_t>(out, spec.soft_limits.size());
  for (const auto& [resource, limit] : spec.soft_limits) {
    PutNumber<std::uint64_t>(out, static_cast<std::uint64_t>(resource));
    PutNumber<std::uint64_t>(out, limit);
  }
  return out;
}

absl::StatusOr<core::JobSpec> DecodeSpec(std::string_view bytes) {
  Taker taker(bytes);
  if (taker.Take(kFormat.size()) != kFormat) {
    return absl::DataLossError("the job's spec is of another format than this version reads");
  }
  core::JobSpec spec;
  spec.argv = taker.Strings();
  spec.working_directory = taker.String();
  spec.environment = taker.Strings();
  spec.umask = static_cast<std::uint32_t>(taker.Number());
  for (std::uint64_t left = taker.Number(); left > 0 && taker.ok(); --left) {
    const int resource = static_cast<int>(taker.Number());
    const std::uint64_t limit = taker.Number();
    spec.soft_limits.emplace_back(resource, limit);
  }
  if (!taker.done()) return absl::DataLossError("the job's spec is damaged");
  return spec;
}

}  // namespace stageload::jobs
