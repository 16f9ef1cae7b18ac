// The segments of a job's log: `log.0`, `log.1`, ... in its folder, each a row of records. A record
// tells how many bytes its job had put out before it, so that a reader knows by itself what was
// lost, whether a segment was dropped or a write failed.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_JOBS_LOG_FORMAT_H_
#define STAGELOAD_DAEMON_JOBS_LOG_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/jobs/log.h"

namespace stageload::jobs {

inline constexpr std::size_t kMaxRecordData = std::size_t{64} * 1024;
inline constexpr std::size_t kRecordHeader = 40;

struct RecordHeader {
  LogStream stream = LogStream::kStdout;
  std::uint32_t length = 0;  // of the data that follows
  std::int64_t time_ns = 0;
  // Put out by the job before this record, lost or not.
  std::uint64_t stdout_before = 0;
  std::uint64_t stderr_before = 0;
};

// A whole record: 40 bytes of header in little-endian order (magic, length, time, the two counts,
// stream, checksum over all the rest), then the data. Into `record`, whose memory is used again.
void EncodeRecord(const RecordHeader& header, std::string_view data, std::string* record);

// Of at least kRecordHeader bytes; nullopt when this is no header.
std::optional<RecordHeader> DecodeHeader(std::string_view bytes);
// Of the bytes of one whole record.
bool ChecksumHolds(std::string_view record);

std::string SegmentName(std::uint64_t number);
// nullopt for a name that is not a segment's.
std::optional<std::uint64_t> SegmentNumber(std::string_view name);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_LOG_FORMAT_H_
