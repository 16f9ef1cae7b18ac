// stageloadctl history: what happened, from the daemon's store.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/closest_word.h"
#include "base/text.h"
#include "client/ctl/begin_time.h"
#include "client/ctl/errors.h"
#include "client/ctl/event_kinds.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_follow.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/print.h"
#include "client/ctl/telemetry.h"
#include "client/ctl/telemetry_text.h"

namespace stageload::ctl {
namespace {

constexpr std::int64_t kDefaultCount = 50;
// All of 30 days on a busy machine; more would only fill the memory here.
constexpr std::int64_t kMaxCount = 1'000'000;

struct Options {
  std::string id;
  std::optional<std::string> since;
  std::optional<std::string> until;
  std::vector<std::string> kinds;
  std::optional<std::string> count;
  bool json = false;
};

// "2h" ago, or a moment with a date.
absl::StatusOr<std::int64_t> PastMoment(const std::string& option, const std::string& text,
                                        absl::Time now) {
  if (const absl::StatusOr<absl::Duration> ago = ParseDuration(text); ago.ok()) {
    return absl::ToUnixNanos(now - *ago);
  }
  const absl::StatusOr<absl::Time> time = ParsePastTime(text, now, absl::LocalTimeZone());
  if (!time.ok()) return AboutOption(option, time.status());
  return absl::ToUnixNanos(*time);
}

absl::StatusOr<v1::ListHistoryRequest> ToRequest(const Options& options) {
  v1::ListHistoryRequest request;
  if (!options.id.empty()) {
    const absl::StatusOr<std::int64_t> id = ParseJobId(options.id);
    if (!id.ok()) return id.status();
    request.set_job_id(*id);
  }
  const absl::Time now = absl::Now();
  if (options.since) {
    const absl::StatusOr<std::int64_t> since = PastMoment("--since", *options.since, now);
    if (!since.ok()) return since.status();
    request.set_since_ns(*since);
  }
  if (options.until) {
    const absl::StatusOr<std::int64_t> until = PastMoment("--until", *options.until, now);
    if (!until.ok()) return until.status();
    request.set_until_ns(*until);
  }
  if (options.since && options.until && request.since_ns() > request.until_ns()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--until ", *options.until, " is before --since ", *options.since));
  }
  for (const std::string& list : options.kinds) {
    for (const auto kind : absl::StrSplit(list, ',', absl::SkipEmpty())) {
      request.add_kinds(std::string(kind));
    }
  }
  return request;
}

absl::StatusOr<std::int64_t> ParseCount(const std::optional<std::string>& text) {
  std::int64_t count = kDefaultCount;
  if (!text || (absl::SimpleAtoi(*text, &count) && count >= 1 && count <= kMaxCount)) return count;
  return absl::InvalidArgumentError(
      absl::StrCat("-n: \"", *text, "\": not a whole number from 1 to ", kMaxCount));
}

std::string Text(const EventPage& page, bool json) {
  if (!json) {
    return EventTable(page.events, absl::LocalTimeZone(), true)
        .Text(TerminalWidth(STDOUT_FILENO), UseColour(STDOUT_FILENO));
  }
  std::string lines;
  for (const v1::Event& event : page.events) lines += Line(ToJson(event));
  return lines;
}

// Whether each is a kind at all: one that is not known here may be known to a newer daemon.
absl::Status CheckKinds(const Connection& connection, const v1::ListHistoryRequest& request) {
  for (const std::string& kind : request.kinds()) {
    const auto& known = EventKinds();
    if (std::find(known.begin(), known.end(), kind) != known.end()) continue;
    v1::ListHistoryRequest any;
    any.add_kinds(kind);
    const absl::StatusOr<EventPage> page = NewestEvents(connection, any, 1);
    if (!page.ok()) return page.status();
    if (!page->events.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("--kind: no event is of a kind \"", kind, "\"",
                                                   DidYouMean(kind, known), "; there are ",
                                                   absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

int History(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<std::int64_t> count = ParseCount(options.count);
  if (!count.ok()) return UsageError(invocation, command, std::string(count.status().message()));
  const absl::StatusOr<v1::ListHistoryRequest> request = ToRequest(options);
  if (!request.ok()) {
    return UsageError(invocation, command, std::string(request.status().message()));
  }
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  const absl::StatusOr<EventPage> page =
      NewestEvents(*connection, *request, static_cast<std::size_t>(*count));
  if (!page.ok()) return Fail(page.status());
  if (const auto status = CheckKinds(*connection, *request); !status.ok()) return Fail(status);
  if (page->events.empty() && request->job_id() != 0) {
    const absl::Status known = GetJob(*connection, request->job_id()).status();
    if (!known.ok()) return Fail(known);
  }
  if (!Out(Text(*page, options.json))) return kExitOther;
  if (page->more && !options.count) {
    Note(absl::StrCat("older events are left out; -n ", *count * 10, " shows more of them"));
  }
  return kExitOk;
}

}  // namespace

void AddHistory(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("history", "what happened in the last 30 days");
  const auto options = std::make_shared<Options>();
  command->add_option("id", options->id, "only of this job or session")->type_name("ID");
  command->add_option("--since", options->since, "only of the last 2h, or since 2026-11-30T22:00")
      ->type_name("DUR|TIME");
  command->add_option("--until", options->until, "only before this; as --since")
      ->type_name("DUR|TIME");
  command
      ->add_option("--kind", options->kinds,
                   "only such events: admitted, warned, stopping, ended...; may be repeated")
      ->type_name("EVENT[,EVENT...]")
      ->allow_extra_args(false);
  command->add_option("-n,--limit,--count", options->count, "the newest so many (50)")
      ->type_name("N");
  command->add_flag("--json", options->json, "JSON lines, one an event");
  AddExample(*command, invocation,
             {"stageloadctl history --since 2h --kind stopping --kind warned"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return History(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
