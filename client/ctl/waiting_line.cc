#include "client/ctl/waiting_line.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "client/ctl/json.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print_text.h"

namespace stageload::ctl {
namespace {

std::string Size(double bytes) {
  return FormatBytes(Bytes(static_cast<std::int64_t>(std::max(bytes, 0.0))));
}

// What is read and what is needed; of what has no such figures, its text.
std::string Figures(const v1::Blocker& blocker) {
  switch (blocker.kind()) {
    case v1::BLOCKER_KIND_MEMORY:
      return absl::StrCat(Size(blocker.read()), ", needs ", Size(blocker.needed()));
    case v1::BLOCKER_KIND_SWAP_LIMIT:
      return absl::StrCat(Size(blocker.read()), ", limit is ", Size(blocker.needed()));
    case v1::BLOCKER_KIND_LEVEL:
      return absl::StrCat(FormatPercent(Percent{blocker.read()}), ", needs ",
                          FormatPercent(Percent{blocker.needed()}));
    case v1::BLOCKER_KIND_GROUP:
      return absl::StrCat(blocker.read(), " of ", blocker.needed(), " run");
    default:
      break;
  }
  if (blocker.has_ends_in_ns()) {
    return absl::StrCat("ends in ", FormatSpan(absl::Nanoseconds(blocker.ends_in_ns())));
  }
  return std::string(blocker.text());
}

}  // namespace

std::string WaitingLine(const v1::Job& job, std::size_t width) {
  std::vector<std::string> whole, figures;
  for (const v1::Blocker& blocker : job.blockers()) {
    whole.push_back(Printable(BlockerLine(blocker)));
    figures.push_back(absl::StrCat(Word(blocker.kind()), ": ", Printable(Figures(blocker))));
  }
  const std::string who = absl::StrCat("job ", job.id());
  std::string line = absl::StrCat("stageload: ", who, " waits: ", absl::StrJoin(whole, "; "));
  if (width == 0) return line;
  if (Columns(line) > width) line = absl::StrCat(who, " waits: ", absl::StrJoin(figures, "; "));
  if (Columns(line) > width) line = absl::StrCat(who, ": ", absl::StrJoin(figures, "; "));
  return Cut(line, width);
}

}  // namespace stageload::ctl
