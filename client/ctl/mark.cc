// stageloadctl mark: a stage or a note of the program that calls it, for whoever records or manages
// that program.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "base/trace_limits.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/options.h"
#include "stageload/v1/admission_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

constexpr char kNotes[] =
    "Goes to every recording and to the client whose process tree it is called from, as from a\n"
    "script: `stageloadctl mark --stage decode`. When there is none, or no daemon, that is said "
    "on\n"
    "stderr and no error, so that a script does not fail because nobody watches.";

struct Options {
  std::string stage;
  std::string kind;
  std::string name;
  std::optional<std::string> bytes;
  std::optional<std::string> seconds;
  std::vector<std::string> note;
  bool require = false;
};

bool IsAboutAName(const std::string& kind) {
  return kind == "load" || kind == "reload" || kind == "release";
}

// InvalidArgument says what is missing and gives an example.
absl::Status CheckWhole(const Options& options) {
  const bool says_nothing = absl::StrJoin(options.note, "").empty();
  if (options.stage.empty() && says_nothing && (options.kind.empty() || options.kind == "mark")) {
    return absl::InvalidArgumentError(
        "nothing to mark: name a stage, as in `mark --stage decode`, or say something, as in `mark "
        "weights are loaded`");
  }
  if (IsAboutAName(options.kind) && options.name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--kind ", options.kind,
                                                   ": of what? As in `mark --kind ", options.kind,
                                                   " --name transformer --bytes 13G`"));
  }
  if (options.kind == "stage" && options.stage.empty()) {
    return absl::InvalidArgumentError("--kind stage: needs a --stage, as in `mark --stage decode`");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Mark> ToMark(const Options& options) {
  if (absl::Status status = CheckWhole(options); !status.ok()) return status;
  v1::Mark mark;
  mark.set_kind(options.kind);
  if (options.kind.empty()) mark.set_kind(options.stage.empty() ? "mark" : "stage");
  mark.set_stage(options.stage);
  mark.set_name(options.name);
  mark.set_note(absl::StrJoin(options.note, " "));
  if (options.bytes) {
    const absl::StatusOr<Bytes> bytes = ParseBytes(*options.bytes);
    if (!bytes.ok()) return AboutOption("--bytes", bytes.status());
    if (absl::Status status = CheckTraceSize(*bytes); !status.ok()) {
      return AboutOption("--bytes", status);
    }
    mark.set_nbytes(bytes->count());
  }
  if (options.seconds) {
    const absl::StatusOr<absl::Duration> took = DurationOption("--seconds", *options.seconds);
    if (!took.ok()) return took.status();
    mark.set_seconds(absl::ToDoubleSeconds(*took));
  }
  return mark;
}

int NobodyWatches(const Options& options, const std::string& why, int code) {
  Note(absl::StrCat(why, "; the mark is lost"));
  return options.require ? code : kExitOk;
}

int Mark(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<v1::Mark> mark = ToMark(options);
  if (!mark.ok()) return UsageError(invocation, command, std::string(mark.status().message()));
  ConnectOptions connect = invocation.connect;
  connect.autostart = false;  // it would watch nobody
  const absl::StatusOr<Connection> connection = Connect(connect);
  if (!connection.ok()) {
    return NobodyWatches(options, std::string(connection.status().message()),
                         ExitCodeOf(connection.status()));
  }
  v1::ReportRequest request;
  *request.add_marks() = *mark;
  grpc::ClientContext context;
  SetTimeout(context);
  v1::ReportResponse response;
  const absl::Status status = FromGrpc(
      v1::AdmissionService::NewStub(connection->channel)->Report(&context, request, &response));
  if (absl::IsUnavailable(status) || absl::IsUnimplemented(status)) {
    return NobodyWatches(options, std::string(status.message()), ExitCodeOf(status));
  }
  const bool nobody = status.ok() ? response.client_id() == 0 && response.recordings() == 0
                                  : absl::IsNotFound(status);
  if (nobody) {
    return NobodyWatches(options, "nobody records or manages the program that this is called from",
                         kExitOther);
  }
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddMark(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "mark", "put a stage or a note into the recordings of the calling program");
  const auto options = std::make_shared<Options>();
  command->add_option("--stage", options->stage, "the stage that begins, or that --kind is of")
      ->type_name("S");
  command->add_option("--kind", options->kind, "load, reload, release, or a word of your own")
      ->type_name("KIND");
  command->add_option("--name", options->name, "what is loaded or released")->type_name("N");
  command->add_option("--bytes", options->bytes, "how large that is")->type_name("SIZE");
  command->add_option("--seconds", options->seconds, "how long it took")->type_name("DUR");
  command->add_flag("--require", options->require,
                    "fail when nobody records or manages the caller");
  command->add_option("note", options->note, "a note")->type_name("NOTE");
  command->footer(absl::StrCat(kNotes, "\n\n", command->get_footer()));
  AddExample(*command, invocation,
             {"stageloadctl mark --kind load --name transformer --bytes 13G --seconds 5.2"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Mark(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
