#include "daemon/jobs/log_format.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/jobs/little_endian.h"

namespace stageload::jobs {
namespace {

constexpr std::uint32_t kMagic = 0x31676c73;  // "slg1"
constexpr std::size_t kChecksumAt = kRecordHeader - sizeof(std::uint32_t);

std::uint64_t Mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x100000001b3;
  return hash ^ (hash >> 29);
}

// FNV-1a over words of eight bytes: a job's output passes through here, so a byte at a time is too
// slow. It finds damage, not malice.
std::uint64_t HashOf(std::uint64_t hash, std::string_view bytes) {
  while (bytes.size() >= 8) {
    hash = Mix(hash, GetNumber<std::uint64_t>(bytes.data()));
    bytes.remove_prefix(8);
  }
  for (const char byte : bytes) hash = Mix(hash, static_cast<unsigned char>(byte));
  return hash;
}

std::uint32_t Checksum(std::string_view header, std::string_view data) {
  const std::uint64_t hash =
      HashOf(HashOf(0xcbf29ce484222325, header.substr(0, kChecksumAt)), data);
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

}  // namespace

void EncodeRecord(const RecordHeader& header, std::string_view data, std::string* record) {
  record->clear();
  PutNumber<std::uint32_t>(*record, kMagic);
  PutNumber<std::uint32_t>(*record, static_cast<std::uint32_t>(data.size()));
  PutNumber<std::uint64_t>(*record, static_cast<std::uint64_t>(header.time_ns));
  PutNumber<std::uint64_t>(*record, header.stdout_before);
  PutNumber<std::uint64_t>(*record, header.stderr_before);
  PutNumber<std::uint32_t>(*record, static_cast<std::uint32_t>(header.stream));
  PutNumber<std::uint32_t>(*record, Checksum(*record, data));
  record->append(data);
}

std::optional<RecordHeader> DecodeHeader(std::string_view bytes) {
  RecordHeader header;
  const std::uint32_t stream = GetNumber<std::uint32_t>(bytes.data() + 32);
  header.length = GetNumber<std::uint32_t>(bytes.data() + 4);
  if (GetNumber<std::uint32_t>(bytes.data()) != kMagic || header.length > kMaxRecordData ||
      (stream != static_cast<std::uint32_t>(LogStream::kStdout) &&
       stream != static_cast<std::uint32_t>(LogStream::kStderr))) {
    return std::nullopt;
  }
  header.stream = static_cast<LogStream>(stream);
  header.time_ns = static_cast<std::int64_t>(GetNumber<std::uint64_t>(bytes.data() + 8));
  header.stdout_before = GetNumber<std::uint64_t>(bytes.data() + 16);
  header.stderr_before = GetNumber<std::uint64_t>(bytes.data() + 24);
  return header;
}

bool ChecksumHolds(std::string_view record) {
  return GetNumber<std::uint32_t>(record.data() + kChecksumAt) ==
         Checksum(record.substr(0, kRecordHeader), record.substr(kRecordHeader));
}

std::string SegmentName(std::uint64_t number) { return absl::StrCat("log.", number); }

std::optional<std::uint64_t> SegmentNumber(std::string_view name) {
  constexpr std::string_view kPrefix = "log.";
  std::uint64_t number = 0;
  if (name.substr(0, kPrefix.size()) != kPrefix ||
      !absl::SimpleAtoi(std::string(name.substr(kPrefix.size())), &number) ||
      SegmentName(number) != name) {
    return std::nullopt;
  }
  return number;
}

}  // namespace stageload::jobs
