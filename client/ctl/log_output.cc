#include "client/ctl/log_output.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace stageload::ctl {
namespace {

std::size_t OutputOf(const v1::ReadLogsResponse& piece) {
  return piece.stream() == v1::LOG_STREAM_STDERR ? 1 : 0;
}

// How many bytes at the end begin a character that is not whole.
std::size_t CutCharacter(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(bytes.size(), 3); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // in the middle of one
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::string LineTimes::Stamp(const v1::ReadLogsResponse& piece) {
  const std::string time = absl::StrCat(
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3S%Ez", absl::FromUnixNanos(piece.time_ns()), zone_), " ");
  bool& within_line = within_line_[OutputOf(piece)];
  std::string text;
  std::string_view left = piece.data();
  while (!left.empty()) {
    const std::size_t newline = left.find('\n');
    const std::size_t size = newline == left.npos ? left.size() : newline + 1;
    if (!within_line) text += time;
    text += left.substr(0, size);
    within_line = newline == left.npos;
    left.remove_prefix(size);
  }
  return text;
}

std::string LogJson::LineOf(const v1::ReadLogsResponse& piece) {
  Json json = ToJson(piece);
  try {
    return json.dump(-1, ' ', false, Json::error_handler_t::strict) + "\n";
  } catch (const Json::type_error&) {  // the JSON library's printer finds bytes that are no UTF-8
    json.erase("data");
    json["data_base64"] = absl::Base64Escape(std::string(piece.data()));
    return Line(json);
  }
}

std::string LogJson::RestOf(std::size_t output) {
  const v1::ReadLogsResponse rest = std::exchange(held_[output], {});
  return rest.data().empty() ? "" : LineOf(rest);
}

std::string LogJson::Lines(v1::ReadLogsResponse piece) {
  const std::size_t output = OutputOf(piece);
  std::string lines;
  if (piece.dropped_bytes() > 0) lines = Rest();  // what follows does not complete it
  std::string data = std::exchange(held_[output], {}).data() + piece.data();
  const std::size_t cut = CutCharacter(data);
  if (cut > 0) {
    held_[output] = piece;
    held_[output].clear_dropped_bytes();
    held_[output].clear_skipped_bytes();
    held_[output].set_data(data.substr(data.size() - cut));
    data.resize(data.size() - cut);
  }
  if (data.empty() && piece.dropped_bytes() == 0 && piece.skipped_bytes() == 0) return lines;
  piece.set_data(std::move(data));
  return lines + LineOf(piece);
}

std::string LogJson::Rest() {
  std::string rest = RestOf(0);
  return rest + RestOf(1);
}

}  // namespace stageload::ctl
