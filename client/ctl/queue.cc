// stageloadctl queue: what waits, in order and with what it waits for, then what runs; and with
// --all what has ended.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/closest_word.h"
#include "base/text.h"
#include "client/ctl/begin_time.h"
#include "client/ctl/client_leases.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_list.h"
#include "client/ctl/job_table.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print.h"
#include "client/ctl/queue_watch.h"
#include "client/ctl/telemetry.h"

namespace stageload::ctl {
namespace {

struct Options {
  bool all = false;
  std::vector<std::string> states;
  std::string group;
  std::string name;
  std::optional<std::string> since;
  std::optional<std::string> limit;
  bool watch = false;
  bool json = false;
};

// "pending,running"; "OUT_OF_MEMORY" and "out-of-memory" are the same.
absl::Status ReadStates(const std::vector<std::string>& lists, v1::ListJobsRequest& request) {
  for (const std::string& list : lists) {
    for (std::string word : std::vector<std::string>(absl::StrSplit(list, ','))) {
      const std::string given = word;
      absl::AsciiStrToUpper(&word);
      for (char& letter : word) letter = letter == '-' ? '_' : letter;
      v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
      if (word == "UNSPECIFIED" || !v1::JobState_Parse(absl::StrCat("JOB_STATE_", word), &state)) {
        std::vector<std::string> words;
        for (const v1::JobState each : JobStates()) words.push_back(Word(each));
        return absl::InvalidArgumentError(absl::StrCat("--state: \"", given, "\" is none of ",
                                                       absl::StrJoin(words, ", "),
                                                       DidYouMean(word, words)));
      }
      request.add_states(state);
    }
  }
  return absl::OkStatus();
}

// "2h" ago, or a moment as --begin takes them.
absl::StatusOr<absl::Time> ParseSince(const std::string& text, absl::Time now) {
  if (const absl::StatusOr<absl::Duration> ago = ParseDuration(text); ago.ok()) return now - *ago;
  return ParsePastTime(text, now, absl::LocalTimeZone());
}

absl::StatusOr<v1::ListJobsRequest> ToRequest(const Options& options) {
  v1::ListJobsRequest request;
  request.set_order(v1::JOB_ORDER_QUEUE);
  request.set_group(options.group);
  request.set_name_contains(options.name);
  if (options.since) {
    const absl::StatusOr<absl::Time> since = ParseSince(*options.since, absl::Now());
    if (!since.ok()) return AboutOption("--since", since.status());
    request.set_submitted_since_ns(absl::ToUnixNanos(*since));
  }
  if (absl::Status status = ReadStates(options.states, request); !status.ok()) return status;
  if (options.all || !options.states.empty()) return request;
  for (const v1::JobState state : {v1::JOB_STATE_PENDING, v1::JOB_STATE_RUNNING,
                                   v1::JOB_STATE_SUSPENDED, v1::JOB_STATE_STOPPING}) {
    request.add_states(state);
  }
  return request;
}

absl::StatusOr<std::optional<std::int64_t>> ParseLimit(const std::optional<std::string>& text) {
  std::int64_t limit = 0;
  if (!text) return std::optional<std::int64_t>();
  if (absl::SimpleAtoi(*text, &limit) && limit >= 1) return std::optional(limit);
  return absl::InvalidArgumentError(
      absl::StrCat("--limit: \"", *text, "\": not a whole number from 1 up"));
}

// One document, written as the pages come: no list is held as a whole, however long it is.
int PrintJson(const Connection& connection, const v1::ListJobsRequest& request,
              std::optional<std::int64_t> limit) {
  std::int64_t printed = 0;
  std::optional<std::string> held;
  std::optional<v1::Frame> frame;  // once there is one that runs
  bool written = Out("{\n  \"jobs\": [");
  const absl::Status status = ListJobs(
      connection, request,
      [&](const v1::Job& job) {
        if (IsActive(job) && !frame) frame = FrameIfAny(connection);
        const Json json = frame ? ToJson(job, *frame) : ToJson(job);
        written =
            written && Out(absl::StrCat(printed == 0 ? "\n" : ",\n", "    ",
                                        json.dump(-1, ' ', false, Json::error_handler_t::replace)));
        return written && ++printed != limit;
      },
      &held);
  // What was written is no document without its end, also after a failure.
  std::string end = printed == 0 ? "]" : "\n  ]";
  if (held) absl::StrAppend(&end, ",\n  \"queue_held\": ", Json(*held).dump());
  written = written && Out(absl::StrCat(end, "\n}\n"));
  if (!status.ok()) return Fail(status);
  return written ? kExitOk : kExitOther;
}

int PrintTable(const Connection& connection, const v1::ListJobsRequest& request,
               std::optional<std::int64_t> limit) {
  std::vector<v1::Job> jobs;
  std::optional<std::string> held;
  const absl::Status status = ListJobs(
      connection, request,
      [&](const v1::Job& job) {
        jobs.push_back(job);
        return static_cast<std::int64_t>(jobs.size()) != limit;
      },
      &held);
  if (!status.ok()) return Fail(status);
  if (held) {
    Note(absl::StrCat("the queue is held: ", Printable(*held),
                      "; `stageloadctl release --queue` lets it go on"));
  }
  const bool any_active = std::any_of(jobs.begin(), jobs.end(), IsActive);
  const Table table = JobTable(jobs, any_active ? FrameIfAny(connection) : v1::Frame());
  return Out(table.Text(TerminalWidth(STDOUT_FILENO), UseColour(STDOUT_FILENO))) ? kExitOk
                                                                                 : kExitOther;
}

int Queue(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<v1::ListJobsRequest> request = ToRequest(options);
  if (!request.ok())
    return UsageError(invocation, command, std::string(request.status().message()));
  const absl::StatusOr<std::optional<std::int64_t>> limit = ParseLimit(options.limit);
  if (!limit.ok()) return UsageError(invocation, command, std::string(limit.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  if (options.watch) return WatchQueue(*connection, options.json);
  return options.json ? PrintJson(*connection, *request, *limit)
                      : PrintTable(*connection, *request, *limit);
}

}  // namespace

void AddQueue(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("queue", "what waits and why, and what runs");
  const auto options = std::make_shared<Options>();
  CLI::Option* all = command->add_flag("--all", options->all, "also what has ended");
  CLI::Option* states =
      command
          ->add_option("--state", options->states,
                       "only these: pending, running, suspended, stopping, completed, failed, "
                       "cancelled, timeout, out_of_memory, no_room, node_fail, unknown")
          ->type_name("STATE[,...]")
          ->allow_extra_args(false)
          ->excludes(all);
  CLI::Option* group =
      command->add_option("--group", options->group, "only of this group")->type_name("NAME");
  CLI::Option* name =
      command->add_option("--name", options->name, "only those whose name contains this")
          ->type_name("TEXT");
  CLI::Option* since =
      command
          ->add_option("--since", options->since,
                       "only what was submitted in the last 2h, or since 2026-11-30T22:00")
          ->type_name("DUR|TIME");
  CLI::Option* limit =
      command->add_option("--limit", options->limit, "only the first so many")->type_name("N");
  command
      ->add_flag("--watch", options->watch,
                 "print a line for each job that waits or runs, and for each change, until Ctrl-C")
      ->excludes(all)
      ->excludes(states)
      ->excludes(group)
      ->excludes(name)
      ->excludes(since)
      ->excludes(limit);
  command->add_flag("--json", options->json,
                    "one document: {\"jobs\": [...]}; with --watch JSON lines");
  AddExample(*command, invocation, {"stageloadctl queue --state failed,out_of_memory --since 12h"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Queue(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
