// Asks for one page of jobs, or for the profiles.
#include "client/ctl/completion_live.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "client/ctl/call.h"
#include "client/ctl/json.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print_text.h"

namespace stageload::ctl {
namespace {

// Nobody reads more, and it comes within the time.
constexpr int kMostJobs = 500;

// The jobs on which a command can act: those in one of the states for which `also` holds.
struct Scope {
  std::vector<v1::JobState> states;
  bool (*also)(const v1::Job&) = [](const v1::Job&) { return true; };
};

std::vector<v1::JobState> StatesFor(bool (*holds)(v1::JobState)) {
  std::vector<v1::JobState> states = JobStates();
  std::erase_if(states, [&](v1::JobState state) { return !holds(state); });
  return states;
}

Scope ScopeOf(const std::string& name) {
  const auto ended = [](v1::JobState state) { return IsEnd(state); };
  const auto lives = [](v1::JobState state) { return !IsEnd(state); };
  if (name == "hold")
    return {{v1::JOB_STATE_PENDING}, [](const v1::Job& job) { return !job.held(); }};
  if (name == "release")
    return {{v1::JOB_STATE_PENDING}, [](const v1::Job& job) { return job.held(); }};
  if (name == "suspend") return {{v1::JOB_STATE_RUNNING}};
  if (name == "resume") return {{v1::JOB_STATE_SUSPENDED}};
  if (name == "clear") return {StatesFor(ended)};
  if (name == "retry") {
    return {StatesFor([](v1::JobState state) {
              return IsEnd(state) && state != v1::JOB_STATE_COMPLETED;
            }),
            [](const v1::Job& job) { return job.kind() == v1::JOB_KIND_JOB; }};
  }
  static const std::set<std::string> kOfLiving = {"cancel", "wait", "update", "--after"};
  if (kOfLiving.contains(name)) return {StatesFor(lives)};
  return {};  // all, as for show, logs and history
}

// From now on this process has so long, whatever it waits for.
void ExitIn(absl::Duration time) {
  struct sigaction action {};
  action.sa_handler = [](int) { _exit(0); };
  sigaction(SIGALRM, &action, nullptr);
  const itimerval once{{0, 0}, absl::ToTimeval(time)};
  setitimer(ITIMER_REAL, &once, nullptr);
}

template <typename Request, typename Response>
Response Ask(const ConnectOptions& connect, JobMethod<Request, Response> method,
             const Request& request) {
  Response response;
  ExitIn(kCompleteWithin);
  const absl::StatusOr<Connection> connection = Connect(connect);
  if (!connection.ok()) return response;
  grpc::ClientContext context;
  SetTimeout(context, kCompleteWithin);
  const auto stub = v1::JobService::NewStub(connection->channel);
  const grpc::Status status = (stub.get()->*method)(&context, request, &response);
  return status.ok() ? response : Response();
}

// The newest first.
v1::ListJobsResponse Jobs(const ConnectOptions& connect, const Scope& scope) {
  v1::ListJobsRequest request;
  request.set_page_size(kMostJobs);
  for (const v1::JobState state : scope.states) request.add_states(state);
  return Ask(connect, &v1::JobService::Stub::ListJobs, request);
}

std::vector<Candidate> JobsOf(const ConnectOptions& connect, const Scope& scope) {
  std::vector<Candidate> candidates;
  const v1::ListJobsResponse response = Jobs(connect, scope);
  for (const v1::Job& job : response.jobs()) {
    if (!scope.also(job)) continue;
    candidates.push_back(
        {absl::StrCat(job.id()), absl::StrCat(std::string(job.name()), ", ", Word(job.state()))});
  }
  return candidates;
}

std::vector<Candidate> GroupsOf(const ConnectOptions& connect) {
  std::map<std::string, int> jobs_of;
  const v1::ListJobsResponse response = Jobs(connect, Scope());
  for (const v1::Job& job : response.jobs()) ++jobs_of[std::string(job.group())];
  std::vector<Candidate> candidates;
  for (const auto& [group, count] : jobs_of) {
    if (group.empty()) continue;
    candidates.push_back({group, absl::StrCat(count, count == 1 ? " job" : " jobs")});
  }
  return candidates;
}

std::vector<Candidate> ProfilesOf(const ConnectOptions& connect) {
  std::vector<Candidate> candidates;
  const auto response =
      Ask(connect, &v1::JobService::Stub::ListProfiles, v1::ListProfilesRequest());
  for (const v1::Profile& profile : response.profiles()) {
    const int runs = profile.runs_size();
    candidates.push_back(
        {std::string(profile.name()), absl::StrCat(runs, runs == 1 ? " run" : " runs")});
  }
  return candidates;
}

}  // namespace

LiveValues ValuesOfDaemon(ConnectOptions connect) {
  connect.autostart = false;
  connect.answer_within = kCompleteWithin;
  connect.on_answer = nullptr;
  connect.on_silence = nullptr;
  return {[=](const std::string& name) { return JobsOf(connect, ScopeOf(name)); },
          [=] { return GroupsOf(connect); }, [=] { return ProfilesOf(connect); }};
}

}  // namespace stageload::ctl
