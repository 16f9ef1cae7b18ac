// stageloadctl doctor: looks at all that stageload stands on, changes nothing, and says of each
// thing whether it is well and what to do if not.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/private_folder.h"
#include "base/text.h"
#include "base/version.h"
#include "client/ctl/build_day.h"
#include "client/ctl/daemon_control.h"
#include "client/ctl/doctor_counters.h"
#include "client/ctl/doctor_daemon.h"
#include "client/ctl/doctor_files.h"
#include "client/ctl/doctor_finding.h"
#include "client/ctl/doctor_machine.h"
#include "client/ctl/doctor_service.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"
#include "client/ctl/tool.h"

namespace stageload::ctl {
namespace {

constexpr char kFooter[] =
    "Exits with 0 when nothing has failed (warnings may be there), with 1 when something has.\n"
    "It starts no daemon and changes nothing. Each line is explained in docs/doctor.md.";

// A level may fall by tens of points between two looks, so one that differs is looked at again.
constexpr int kLooks = 3;
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(700);

// All that one call finds out.
class Examination {
 public:
  Examination(const Invocation& invocation, Platform platform, Paths paths)
      : invocation_(invocation), platform_(platform), paths_(std::move(paths)) {}

  void Run() {
    machine_ = ReadMachine();
    programs_ = FindPrograms();
    Add(CheckAccount());
    Add(CheckPrograms(programs_));
    Add(CheckConfig());
    LookAtDaemon();
    LookAtFolders();
    LookAtCounters();
    if (connection_) LookAtDaemonsReading();
    Add(CheckStateDisk(ReadDisk(paths_.state)));
    LookAtLimits();
    Add(CheckService(service_,
                     connection_ ? connection_->version.started_by() : v1::STARTED_BY_UNSPECIFIED));
    if (connection_) LookAtStops();
  }

  bool healthy() const { return Count(Verdict::kFail) == 0; }
  std::string Text(bool colour, std::size_t columns) const;  // 0 is no limit
  Json ToJson() const;

 private:
  void Add(Finding finding) { findings_.push_back(std::move(finding)); }
  void Add(const Findings& findings) {
    findings_.insert(findings_.end(), findings.begin(), findings.end());
  }
  int Count(Verdict verdict) const {
    return static_cast<int>(
        std::count_if(findings_.begin(), findings_.end(),
                      [&](const Finding& finding) { return finding.verdict == verdict; }));
  }

  static Finding CheckAccount();
  Finding CheckConfig();
  void LookAtDaemon();
  void LookAtFolders();
  absl::StatusOr<Json> TakeProbe() const;
  void LookAtCounters();
  absl::StatusOr<Snapshot> TakeSnapshot() const;
  void LookAtDaemonsReading();
  void LookAtLimits();
  void LookAtStops();

  const Invocation& invocation_;
  const Platform platform_;
  const Paths paths_;
  Machine machine_;
  Programs programs_;
  ServiceFacts service_;
  std::optional<Connection> connection_;
  std::optional<std::int64_t> max_sessions_;
  Json probe_;  // null while there is none
  Json stops_ = Json::array();
  Findings findings_;
};

Finding Examination::CheckAccount() {
  const auto caller = ProcessEnvironment()("SUDO_UID");
  const std::string text = absl::StrCat("uid ", ::geteuid());
  if (::geteuid() != 0 || !caller || *caller == "0") return Well("account", text);
  return Warn("account", absl::StrCat(text, " by sudo: this looks at root's daemon and folders"),
              "run it without sudo, as the user whose jobs it is about");
}

Finding Examination::CheckConfig() {
  const bool exists = ::access(paths_.config.c_str(), F_OK) == 0;
  if (!programs_.version.ok()) {
    return Warn("config", absl::StrCat(paths_.config, " was not looked at: it takes a stageloadd"),
                "put right what the line about programs says");
  }
  const std::vector<std::string> argv = {*programs_.daemon, "--check-config"};
  const auto result = RunTool(argv, kLookWithin);
  if (!result.ok()) {
    return Fail("config", std::string(result.status().message()), RepairOf(programs_));
  }
  if (!result->ok()) {
    // A config that is refused is refused with words.
    const bool refused = result->exit_code < 126 && !result->output.empty();
    if (!refused) return Fail("config", ToolFailure(argv, *result), RepairOf(programs_));
    return CheckConfigFile(paths_.config, exists, absl::FailedPreconditionError(result->output));
  }
  std::string output = result->output;
  const std::string key = "max_sessions = ";
  std::int64_t sessions = 0;
  if (absl::StartsWith(output, key) && absl::SimpleAtoi(output.substr(key.size()), &sessions)) {
    max_sessions_ = sessions;
  }
  return CheckConfigFile(paths_.config, exists, absl::OkStatus());
}

void Examination::LookAtDaemon() {
  service_ =
      ReadService(platform_, invocation_.connect, programs_.daemon.ok() ? *programs_.daemon : "");
  ConnectOptions connect = invocation_.connect;
  connect.autostart = false;
  connect.on_answer = nullptr;  // the skew is a line here, and so is the silence
  connect.on_silence = nullptr;
  connect.answer_within = kDoctorWaits;
  absl::StatusOr<Connection> connection = Connect(connect);
  DaemonFacts facts = ReadDaemon(paths_, connection);
  facts.may_start = invocation_.connect.autostart;
  facts.socket_of_service = service_.serves_here;
  const bool of_service =
      connection.ok() && connection->version.started_by() == v1::STARTED_BY_SERVICE;
  facts.service_program_gone = service_.program_gone && (service_.serves_here || of_service);
  facts.served_twice =
      service_.serves_here && service_.state.ok() && !service_.state->twice.empty();
  if (service_.serves_here && service_.state.ok() && service_.state->loaded) {
    facts.service_pid = service_.state->pid;
  }
  if (facts.version || facts.lock_held) service_.home_pid = facts.lock_pid;
  Add(CheckDaemon(facts, absl::Now()));
  if (!connection.ok()) return;
  connection_ = *std::move(connection);
  Add(CheckVersions(connection_->version, programs_));
}

void Examination::LookAtFolders() {
  const auto check = [this](const char* name, const std::string& folder) {
    Add(CheckFolder(name, folder, CheckPrivateFolder(folder, Readable::kByOwnerOnly)));
  };
  const std::string socket_folder = paths_.socket.substr(0, paths_.socket.rfind('/'));
  check("socket_folder", socket_folder.empty() ? "/" : socket_folder);
  if (auto finding = CheckSocketFile(paths_.socket)) Add(*std::move(finding));
  if (socket_folder != paths_.state) check("state_folder", paths_.state);
  check("log_folder", paths_.logs);
  Add(CheckFiles(paths_));
  if (auto finding = CheckStoreFile(paths_.store)) {
    Add(*std::move(finding));
  } else if (connection_) {
    const absl::Time now = absl::Now();
    Add(CheckStore(ReadStoreEvents(*connection_, now), now));
  }
}

absl::StatusOr<Json> Examination::TakeProbe() const {
  // One that hangs would do so again.
  if (!programs_.version.ok()) return programs_.version.status();
  const std::vector<std::string> argv = {*programs_.daemon, "--probe"};
  const auto result = RunTool(argv, kLookWithin);
  if (!result.ok()) return result.status();
  Json probe = Json::parse(result->output, nullptr, false);
  // With 1 it has errors, which stand in what it has printed.
  if (probe.is_object()) return probe;
  return absl::FailedPreconditionError(
      absl::StrCat(ToolFailure(argv, *result), "; it may be too old to know --probe"));
}

void Examination::LookAtCounters() {
  const auto first = TakeProbe();
  const auto second = first.ok() ? TakeProbe() : first;
  if (!second.ok()) {
    Add(Fail("probe", std::string(second.status().message()), RepairOf(programs_)));
    return;
  }
  probe_ = *second;
  Add(CheckCounters(*first, *second, machine_));
  Add(CheckClocks(*first, *second, BuildTime()));
  Add(CheckSwap(machine_, BytesIn(probe_, "host", "swap_used_bytes"),
                BytesIn(probe_, "host", "swap_total_bytes")));
  Add(CheckSwapDisk(machine_, ReadDisk(machine_.platform == Platform::kMacos ? MacosSwapFolder()
                                                                             : paths_.state)));
}

absl::StatusOr<Snapshot> Examination::TakeSnapshot() const {
  grpc::ClientContext context;
  SetTimeout(context, kDoctorWaits);
  v1::GetSnapshotResponse response;
  const grpc::Status status = v1::TelemetryService::NewStub(connection_->channel)
                                  ->GetSnapshot(&context, v1::GetSnapshotRequest(), &response);
  if (!status.ok()) return FromGrpc(status);
  const v1::Frame& frame = response.frame();
  Snapshot snapshot;
  if (frame.host().has_level_percent()) snapshot.level = frame.host().level_percent();
  if (frame.host().has_total_bytes()) snapshot.total = Bytes(frame.host().total_bytes());
  snapshot.age = absl::Now() - absl::FromUnixNanos(frame.time_ns());
  return snapshot;
}

void Examination::LookAtDaemonsReading() {
  std::optional<Finding> finding;
  for (int look = 1; look <= kLooks; ++look) {
    if (look > 1) absl::SleepFor(kBetweenLooks);
    const auto snapshot = TakeSnapshot();
    const auto probe = TakeProbe();
    if (snapshot.ok() && probe.ok()) {
      finding = CheckSnapshot(*snapshot, *probe);
      if (finding->verdict != Verdict::kFail) break;
    } else if (!snapshot.ok()) {
      finding = Fail("daemon_reads",
                     absl::StrCat("it tells no reading of the machine: ",
                                  std::string(snapshot.status().message())),
                     "look into its log; `stageloadctl daemon restart` (jobs run on)");
      if (!absl::IsUnavailable(snapshot.status())) break;  // else it may have none yet
    } else {
      return;  // the line about probes says why
    }
  }
  Add(*std::move(finding));
}

void Examination::LookAtLimits() {
  const Limits own = OwnLimits();
  Add(CheckOwnLimits(own, ::geteuid() == 0));
  const bool runs = connection_ && connection_->version.pid() > 0;
  const auto daemon = runs ? LimitsOf(connection_->version.pid()) : std::nullopt;
  Add(CheckDaemonLimits(own, daemon, max_sessions_));
}

void Examination::LookAtStops() {
  const absl::Time now = absl::Now();
  const auto stops = ReadStops(*connection_, now);
  if (!stops.ok()) {
    Add(Warn("stops",
             absl::StrCat("the daemon does not tell what it has stopped: ",
                          std::string(stops.status().message())),
             "look into its log"));
    return;
  }
  for (const v1::Event& event : *stops) stops_.push_back(ctl::ToJson(event));
  Add(CheckStops(*stops, now));
}

const char* Word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kFail:
      return "fail";
  }
  return "";
}

// As in a table: "ok    ".
std::string Shown(Verdict verdict, bool colour) {
  const std::string word = absl::StrCat(Word(verdict), verdict == Verdict::kOk ? "    " : "  ");
  if (!colour) return word;
  const char* const codes[] = {"\x1b[32m", "\x1b[33m", "\x1b[31m"};
  return absl::StrCat(codes[static_cast<int>(verdict)], word, "\x1b[0m");
}

std::string Padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

// A line of `first`, which takes `columns`, and a text; on a terminal that is too narrow for both
// the text stands below.
std::string Item(const std::string& first, std::size_t columns, const std::string& text,
                 std::size_t width) {
  constexpr std::size_t kLeastBeside = 30, kBelow = 6;
  const std::string printable = Printable(text);
  if (width == 0 || columns + kLeastBeside <= width || columns + Columns(printable) <= width) {
    return absl::StrCat(first, Hanging(printable, width, columns), "\n");
  }
  const std::string blanks(kBelow, ' ');
  const bool any = first.find_first_not_of(' ') != std::string::npos;
  return absl::StrCat(any ? first.substr(0, first.find_last_not_of(' ') + 1) + "\n" : "", blanks,
                      Hanging(printable, width, kBelow), "\n");
}

std::string Examination::Text(bool colour, std::size_t columns) const {
  std::string text = absl::StrCat(
      Item("", 0,
           absl::StrCat("stageloadctl ", kVersion, " (API level ", kApiLevel, "), built on ",
                        BuildDay()),
           columns),
      Item("", 0, Described(machine_), columns),
      Item("", 0,
           absl::StrCat("socket ", paths_.socket, "; state ", paths_.state, "; config ",
                        paths_.config, "; log ", paths_.logs, "/stageloadd.log"),
           columns),
      "\n");
  std::size_t width = 0;
  for (const Finding& finding : findings_) width = std::max(width, finding.check.size());
  for (const Finding& finding : findings_) {
    text += Item(absl::StrCat(Shown(finding.verdict, colour), Padded(finding.check, width), "  "),
                 width + 8, finding.text, columns);
    if (finding.fix.empty()) continue;
    text += Item(std::string(width + 8, ' '), width + 8, absl::StrCat("-> ", finding.fix), columns);
  }
  const int failed = Count(Verdict::kFail), warned = Count(Verdict::kWarn);
  absl::StrAppend(&text, "\n", failed == 0 ? "nothing has failed" : absl::StrCat(failed, " failed"),
                  ", ", warned, warned == 1 ? " warning\n" : " warnings\n");
  return text;
}

Json MachineJson(const Machine& machine) {
  Json areas = Json::array();
  for (const SwapArea& area : machine.swap_areas) {
    areas.push_back({{"path", area.path}, {"kind", area.kind}, {"size_bytes", area.size.count()}});
  }
  Json json{{"system", machine.system},
            {"release", machine.release},
            {"name", machine.name},
            {"model", machine.model},
            {"architecture", machine.architecture},
            {"processors", machine.processors},
            {"memory_bytes", machine.memory.count()},
            {"page_bytes", machine.page.count()},
            {"swap_areas", areas}};
  if (machine.swap_enabled) json["swap_enabled"] = *machine.swap_enabled;
  return json;
}

Json Examination::ToJson() const {
  Json checks = Json::array();
  for (const Finding& finding : findings_) {
    checks.push_back({{"check", finding.check},
                      {"verdict", Word(finding.verdict)},
                      {"text", finding.text},
                      {"fix", finding.fix}});
  }
  return Json{
      {"healthy", healthy()},
      {"failed", Count(Verdict::kFail)},
      {"warnings", Count(Verdict::kWarn)},
      {"client",
       {{"version", std::string(kVersion)}, {"api_level", kApiLevel}, {"built", BuildDay()}}},
      {"machine", MachineJson(machine_)},
      {"paths",
       {{"socket", paths_.socket},
        {"state", paths_.state},
        {"config", paths_.config},
        {"logs", paths_.logs}}},
      {"daemon", connection_ ? ctl::ToJson(connection_->version) : Json()},
      {"checks", checks},
      {"probe", probe_},
      {"stops", stops_}};
}

int Doctor(const Invocation& invocation, Platform platform, bool json) {
  absl::StatusOr<Paths> paths = PathsFor(invocation.connect);
  if (!paths.ok()) return ctl::Fail(paths.status());
  Examination examination(invocation, platform, *std::move(paths));
  examination.Run();
  const std::string text =
      json ? Document(examination.ToJson())
           : examination.Text(UseColour(STDOUT_FILENO), TerminalWidth(STDOUT_FILENO));
  if (!Out(text)) return kExitOther;
  return examination.healthy() ? kExitOk : kExitOther;
}

}  // namespace

void AddDoctor(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("doctor", "check all that stageload stands on, and say what to do");
  command->footer(kFooter);
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "one document, with all that was read");
  const auto platform = std::make_shared<Platform>();
  AddPlatform(*command, *platform);
  command->get_option("--platform")->group("");
  AddExample(*command, invocation, {"stageloadctl doctor --json > doctor.json"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Doctor(invocation, *platform, *json); };
  });
}

}  // namespace stageload::ctl
