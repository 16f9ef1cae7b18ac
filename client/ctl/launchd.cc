// launchctl, as launchctl(1) describes it since macOS 10.10.
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/ctl/supervisor.h"
#include "client/ctl/tool.h"

namespace stageload::ctl {
namespace {

// Above the LaunchAgent's ExitTimeOut.
constexpr absl::Duration kGoneWithin = absl::Seconds(40);
// A service that has just been taken out may still be in the way.
constexpr absl::Duration kBootstrapWithin = absl::Seconds(5);
// "Domain does not support specified action": there is no graphical login.
constexpr int kNoSuchDomain = 125;
constexpr std::size_t kMostWords = 500;

void Pause() {
  const timespec pause{0, 100'000'000};
  nanosleep(&pause, nullptr);
}

// The value of a line "    KEY = VALUE" of `launchctl print`; empty when there is none.
std::string Field(const std::string& text, const std::string& key) {
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(" = ", 1));
    if (parts.size() != 2) continue;
    absl::StripAsciiWhitespace(&parts[0]);
    if (parts[0] == key) return parts[1];
  }
  return "";
}

class Launchd : public Supervisor {
 public:
  Launchd(std::string plist, std::string errors)
      : plist_(std::move(plist)), errors_(std::move(errors)) {}

  const char* Name() const override { return "launchd"; }
  absl::StatusOr<Supervised> Look() override;
  absl::Status Load() override;
  absl::Status Unload() override;
  absl::Status Disable() override { return Unload(); }
  absl::Status AfterRemoval() override { return absl::OkStatus(); }
  absl::Status Restart() override;
  std::string LastWords() override;
  std::vector<Step> LoadSteps() const override;
  std::vector<Step> DisableSteps() const override;

 private:
  using Argv = std::vector<std::string>;

  static std::string Target(const std::string& domain) {
    return absl::StrCat(domain, "/", kServiceLabel);
  }
  Argv Bootout(const std::string& domain) const { return {"launchctl", "bootout", Target(domain)}; }
  Argv Enable(const std::string& domain) const { return {"launchctl", "enable", Target(domain)}; }
  Argv Bootstrap(const std::string& domain) const {
    return {"launchctl", "bootstrap", domain, plist_};
  }

  static bool IsEnabledIn(const std::string& domain);
  absl::StatusOr<Supervised> LookIn(const std::string& domain);
  absl::Status TakeOut(const std::string& domain);
  absl::StatusOr<ToolResult> PutIn(const std::string& domain, bool was_loaded);
  absl::StatusOr<bool> HasGraphicalLogin(const ToolResult& refused);

  const std::string plist_;
  const std::string errors_;
  // With a graphical login, and without.
  const std::string gui_ = absl::StrCat("gui/", geteuid());
  const std::string user_ = absl::StrCat("user/", geteuid());
};

// What `launchctl disable` was said of is a line `"LABEL" => disabled`, before macOS 13 `=> true`.
bool Launchd::IsEnabledIn(const std::string& domain) {
  const auto result = RunTool({"launchctl", "print-disabled", domain}, kLookWithin);
  const std::string label = absl::StrCat("\"", kServiceLabel, "\" => ");
  return !result.ok() || (!absl::StrContains(result->output, label + "disabled") &&
                          !absl::StrContains(result->output, label + "true"));
}

absl::StatusOr<Supervised> Launchd::LookIn(const std::string& domain) {
  const auto result = RunTool({"launchctl", "print", Target(domain)}, kLookWithin);
  if (!result.ok()) return result.status();
  if (!result->ok()) return Supervised{};
  Supervised found{true, domain, 0, Field(result->output, "state")};
  (void)absl::SimpleAtoi(Field(result->output, "pid"), &found.pid);
  const std::string code = Field(result->output, "last exit code");
  if (!code.empty()) absl::StrAppend(&found.condition, ", last exit code ", code);
  found.file = Field(result->output, "path");
  found.enabled = IsEnabledIn(domain);
  return found;
}

absl::StatusOr<Supervised> Launchd::Look() {
  absl::StatusOr<Supervised> found = LookIn(gui_);
  if (!found.ok()) return found;
  absl::StatusOr<Supervised> other = LookIn(user_);
  if (!other.ok() || !other->loaded) return found;
  if (!found->loaded) {
    // Where launchd has it at the next login: then two would contend.
    const auto graphical = RunTool({"launchctl", "print", gui_}, kLookWithin);
    if (graphical.ok() && graphical->ok()) other->better = gui_;
    return other;
  }
  // As by an install over ssh and a login at the screen afterwards.
  found->twice = user_;
  absl::StrAppend(&found->condition, "; loaded in ", user_, " as well",
                  other->pid == 0 ? "" : absl::StrCat(", pid ", other->pid));
  return found;
}

absl::Status Launchd::TakeOut(const std::string& domain) {
  const auto result = RunTool(Bootout(domain));
  if (!result.ok()) return result.status();
  const absl::Time begin = absl::Now();
  for (;;) {  // it may return before the service is gone, with or without an error
    const auto found = LookIn(domain);
    if (!found.ok()) return found.status();
    if (!found->loaded) return absl::OkStatus();
    if (absl::Now() - begin > (result->ok() ? kGoneWithin : kBootstrapWithin)) break;
    Pause();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(ToolFailure(Bootout(domain), *result), "; it is still loaded in ", domain,
                   ". Log out and in again, or run the command by hand"));
}

absl::StatusOr<ToolResult> Launchd::PutIn(const std::string& domain, bool was_loaded) {
  // What `launchctl disable` was once said of cannot be loaded.
  if (const auto enabled = RunTool(Enable(domain)); !enabled.ok()) return enabled.status();
  const absl::Time begin = absl::Now();
  for (;;) {
    auto result = RunTool(Bootstrap(domain));
    if (!result.ok() || result->ok() || !was_loaded) return result;
    if (result->exit_code == kNoSuchDomain) return result;  // it does not come by waiting
    if (absl::Now() - begin > kBootstrapWithin) return result;
    Pause();
  }
}

absl::StatusOr<bool> Launchd::HasGraphicalLogin(const ToolResult& refused) {
  if (refused.exit_code == kNoSuchDomain) return false;
  const auto domain = RunTool({"launchctl", "print", gui_});
  if (!domain.ok()) return domain.status();
  return domain->ok();
}

absl::Status Launchd::Load() {
  const auto loaded = Look();
  if (!loaded.ok()) return loaded.status();
  if (auto status = Unload(); !status.ok()) return status;
  const auto in_gui = PutIn(gui_, loaded->loaded);
  if (!in_gui.ok()) return in_gui.status();
  if (in_gui->ok()) return absl::OkStatus();
  const std::string advice =
      "; look at the file with `plutil -lint`, and at what launchd says in Console or `log show "
      "--last 5m --predicate 'process == \"launchd\"'`";
  const auto graphical = HasGraphicalLogin(*in_gui);
  if (!graphical.ok()) return graphical.status();
  if (*graphical) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToolFailure(Bootstrap(gui_), *in_gui), advice));
  }
  const auto in_user = PutIn(user_, loaded->loaded);
  if (!in_user.ok()) return in_user.status();
  if (in_user->ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(ToolFailure(Bootstrap(gui_), *in_gui), "; ",
                                                    ToolFailure(Bootstrap(user_), *in_user),
                                                    advice));
}

absl::Status Launchd::Unload() {
  for (const std::string& domain : {gui_, user_}) {
    const auto found = LookIn(domain);
    if (!found.ok()) return found.status();
    if (!found->loaded) continue;
    if (auto status = TakeOut(domain); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Launchd::Restart() {
  const auto found = Look();
  if (!found.ok()) return found.status();
  // KeepAlive starts it again. Not `kickstart -k`: how gently that ends a service is not written
  // down.
  const Argv argv = found->pid != 0 ? Argv{"launchctl", "kill", "SIGTERM", Target(found->where)}
                                    : Argv{"launchctl", "kickstart", Target(found->where)};
  const auto result = RunTool(argv);
  if (!result.ok()) return result.status();
  if (result->ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      ToolFailure(argv, *result), "; load it anew with `stageloadctl daemon install`"));
}

std::string Launchd::LastWords() {
  std::ifstream file(errors_, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.size() > kMostWords) text.erase(0, text.size() - kMostWords);
  return text;
}

std::vector<Step> Launchd::LoadSteps() const {
  const std::string absent = "without a graphical login";
  return {{Bootout(gui_), "if it is loaded"},
          {Bootout(user_), "if it is loaded"},
          {Enable(gui_), ""},
          {Bootstrap(gui_), ""},
          {Enable(user_), absent},
          {Bootstrap(user_), absent}};
}

std::vector<Step> Launchd::DisableSteps() const {
  return {{Bootout(gui_), "if it is loaded"}, {Bootout(user_), "if it is loaded"}};
}

}  // namespace

std::unique_ptr<Supervisor> NewLaunchd(const std::string& plist, const std::string& errors) {
  return std::make_unique<Launchd>(plist, errors);
}

}  // namespace stageload::ctl
