// Why a job waits, or why it was stopped, in sentences with the figures; and what would change it.
// Only what is true at this moment is said: a change that would let a job start is offered when
// nothing else blocks it.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_EXPLANATION_H_
#define STAGELOAD_CLIENT_CTL_EXPLANATION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/units.h"
#include "client/ctl/json.h"
#include "stageload/v1/job.pb.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {

// What a user could do, and what comes of it: "`stageloadctl release 4`" "lets it go".
struct Change {
  std::string command;
  std::string effect;
};

struct Explanation {
  std::string text;  // one paragraph; the changes are not in it
  std::vector<Change> changes;
};

// Other jobs by their ids: those of OthersOf that are known.
using Others = std::map<std::int64_t, v1::Job>;
// The jobs that an explanation says something about: what it starts after, who goes first.
std::vector<std::int64_t> OthersOf(const v1::Job& job);

// `frame` has the leases of what runs; without it nothing is said of them.
Explanation ExplainJob(const v1::Job& job, const Others& others, absl::Time now,
                       const v1::Frame& frame = {});

// The paragraph with the changes as its last sentences.
std::string Paragraph(const Explanation& explanation);
Json ToJson(const v1::Job& job, const Explanation& explanation);

// As an option takes it, never more than `size`: "12G", "5400M", "512M". Absent below 1 MiB.
std::optional<std::string> SizeOption(Bytes size);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_EXPLANATION_H_
