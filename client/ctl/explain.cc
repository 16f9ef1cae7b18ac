// stageloadctl explain: why a job waits or was stopped, in a paragraph.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "client/ctl/client_leases.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/explanation.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_follow.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/print.h"
#include "client/ctl/telemetry.h"

namespace stageload::ctl {
namespace {

// Longer lines are hard to read.
constexpr std::size_t kWidest = 100;

struct Options {
  std::string id;
  bool json = false;
};

int Explain(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<std::int64_t> id = ParseJobId(options.id);
  if (!id.ok()) return UsageError(invocation, command, std::string(id.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  const absl::StatusOr<v1::Job> job = GetJob(*connection, *id);
  if (!job.ok()) return Fail(job.status());
  Others others;
  for (const std::int64_t other : OthersOf(*job)) {
    // One that is forgotten by now is called by its id.
    if (const auto found = GetJob(*connection, other); found.ok()) others[other] = *found;
  }
  const v1::Frame frame = IsActive(*job) ? FrameIfAny(*connection) : v1::Frame();
  const Explanation explanation = ExplainJob(*job, others, absl::Now(), frame);
  if (options.json) return Out(Document(ToJson(*job, explanation))) ? kExitOk : kExitOther;
  // At a terminal no word is cut at its edge; elsewhere a paragraph is a line.
  const std::string text = Hanging(Printable(Paragraph(explanation)),
                                   std::min(TerminalWidth(STDOUT_FILENO), kWidest), 0);
  return Out(text + "\n") ? kExitOk : kExitOther;
}

}  // namespace

void AddExplain(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "explain",
      "why a job, or a lease of one, waits, or why it was stopped, with the figures and what would "
      "change it");
  const auto options = std::make_shared<Options>();
  command->add_option("id", options->id, "the job")->required()->type_name("ID");
  command->add_flag("--json", options->json,
                    "one document: {\"id\": ..., \"state\": ..., \"text\": ..., \"changes\": "
                    "[{\"command\": ..., \"effect\": ...}]}");
  AddExample(*command, invocation, {"stageloadctl explain 3"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Explain(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
