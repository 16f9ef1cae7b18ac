// stageloadctl logs: a job's output, stdout to stdout and stderr to stderr.
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_follow.h"
#include "client/ctl/json.h"
#include "client/ctl/log_output.h"
#include "client/ctl/options.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

struct Options {
  std::string id;
  bool follow = false;
  std::optional<std::string> tail;
  bool timestamps = false;
  bool only_stdout = false;
  bool only_stderr = false;
  bool json = false;
};

// InvalidArgument says what of the options is wrong.
absl::StatusOr<v1::ReadLogsRequest> ToRequest(const Options& options) {
  const absl::StatusOr<std::int64_t> id = ParseJobId(options.id);
  if (!id.ok()) return id.status();
  v1::ReadLogsRequest request;
  request.set_id(*id);
  request.set_follow(options.follow);
  if (options.only_stdout) request.set_stream(v1::LOG_STREAM_STDOUT);
  if (options.only_stderr) request.set_stream(v1::LOG_STREAM_STDERR);
  if (options.tail) {
    std::int64_t lines = 0;
    if (!absl::SimpleAtoi(*options.tail, &lines) || lines < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--tail: \"", *options.tail, "\" is no number of lines"));
    }
    request.set_tail_lines(lines);
  }
  return request;
}

// False, with a line on stderr, when the job has no output and will have none that is waited for.
bool MayHaveOutput(const v1::Job& job, bool follow) {
  if (job.state() == v1::JOB_STATE_PENDING && !job.reason_text().empty()) {
    Note(absl::StrCat("job ", job.id(), " waits to run again (", std::string(job.reason_text()),
                      "); this is the output of that run"));
    return true;
  }
  if (job.state() == v1::JOB_STATE_PENDING) {
    Note(absl::StrCat("job ", job.id(), " has not started",
                      follow ? "; waiting for its output" : ", so it has no output yet"));
    return follow;
  }
  if (job.has_start_time_ns() || !IsEnd(job.state())) return true;
  Note(absl::StrCat("job ", job.id(), " ended as ", Word(job.state()),
                    " before it started, so it has no output"));
  return false;
}

// The daemon has started none of these, so their output never came by.
absl::Status HasNoLog(const v1::Job& job) {
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id(), " has no log: it ",
                   job.kind() == v1::JOB_KIND_GUARD
                       ? "is a guarded command, whose output went to where it was guarded"
                       : "is a program that registered itself, whose output is its own"));
}

// Each piece to where it belongs; false when nobody reads any more.
class Printer {
 public:
  explicit Printer(const Options& options) : options_(options) {}

  bool Print(const v1::ReadLogsResponse& piece) {
    if (options_.json) return Out(json_.Lines(piece));
    if (!options_.timestamps) return CopyPiece(piece);
    v1::ReadLogsResponse stamped = piece;
    stamped.set_data(times_.Stamp(piece));
    return CopyPiece(stamped);
  }
  bool Finish() { return !options_.json || Out(json_.Rest()); }

 private:
  const Options& options_;
  LineTimes times_{absl::LocalTimeZone()};
  LogJson json_;
};

int Logs(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<v1::ReadLogsRequest> request = ToRequest(options);
  if (!request.ok())
    return UsageError(invocation, command, std::string(request.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  const absl::StatusOr<v1::Job> job = GetJob(*connection, request->id());
  if (!job.ok()) return Fail(job.status());
  if (job->kind() != v1::JOB_KIND_JOB) return Fail(HasNoLog(*job));
  if (!MayHaveOutput(*job, options.follow)) return kExitOk;

  bool reader_gone = false;
  Printer printer(options);
  const absl::Status status =
      ReadLogs(*connection, *request, [&](const v1::ReadLogsResponse& piece) {
        reader_gone = !printer.Print(piece);
        return !reader_gone;
      });
  if (!reader_gone) reader_gone = !printer.Finish();
  if (!status.ok()) return Fail(status);
  return reader_gone ? kExitOther : kExitOk;
}

}  // namespace

void AddLogs(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("logs", "a job's output");
  const auto options = std::make_shared<Options>();
  command->add_option("id", options->id, "the job")->required()->type_name("ID");
  command->add_flag("-f,--follow", options->follow, "go on until the job ends");
  command->add_option("-n,--tail", options->tail, "begin with the last so many lines")
      ->type_name("N");
  CLI::Option* times = command->add_flag("-t,--timestamps", options->timestamps,
                                         "the time at which it began before each line");
  CLI::Option* out = command->add_flag("--stdout", options->only_stdout, "only its stdout");
  command->add_flag("--stderr", options->only_stderr, "only its stderr")->excludes(out);
  command
      ->add_flag("--json", options->json,
                 "JSON lines, one a piece of output; data_base64 holds what is no UTF-8")
      ->excludes(times);
  AddExample(*command, invocation, {"stageloadctl logs -f --tail 20 3"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Logs(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
