// What the commands share in how they are called.
#include "client/ctl/invocation.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"

namespace stageload::ctl {
namespace {

// CLI11 never sees the user's command line (command_line.h), so its usage line would not show one.
class CommandFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, name);
    const std::size_t end = usage.find_last_not_of(" \n") + 1;
    return usage.insert(end, " [--] COMMAND [ARG...]");
  }
};

}  // namespace

int UsageError(const Invocation& invocation, const CLI::App& command, const std::string& what) {
  Note(what);
  std::string name;
  for (const CLI::App* app = &command; app->get_parent() != nullptr; app = app->get_parent()) {
    name = absl::StrCat(app->get_name(), " ", name);
  }
  Note(absl::StrCat("see ", invocation.program, " ", name, "--help"));
  return kExitUsage;
}

void TakesCommand(CLI::App& command, Invocation& invocation, const std::string& notes) {
  invocation.takers.push_back(&command);
  command.formatter(std::make_shared<CommandFormatter>());
  if (!notes.empty()) command.footer(absl::StrCat(notes, "\n\n", command.get_footer()));
}

void AddExample(CLI::App& command, Invocation& invocation, const std::vector<std::string>& lines) {
  std::string text = lines.size() == 1 ? "Example:\n" : "Examples:\n";
  for (const std::string& line : lines) {
    absl::StrAppend(&text, "  ", line, "\n");
    invocation.examples.push_back({&command, line});
  }
  command.footer(absl::StrCat(text, "\n", command.get_footer()));
}

}  // namespace stageload::ctl
