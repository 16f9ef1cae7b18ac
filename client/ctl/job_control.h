// Commands that ask one thing of each of some jobs: cancel, hold, release, suspend, resume.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_JOB_CONTROL_H_
#define STAGELOAD_CLIENT_CTL_JOB_CONTROL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/call.h"
#include "client/ctl/connection.h"
#include "client/ctl/invocation.h"
#include "stageload/v1/job_service.grpc.pb.h"

namespace stageload::ctl {

using JobCall = std::function<absl::StatusOr<v1::Job>(const Connection&, std::int64_t id)>;

// A call of JobService that takes an id and answers with the job:
// CallFor<v1::HoldJobRequest, v1::HoldJobResponse>(&v1::JobService::Stub::HoldJob).
template <typename Request, typename Response>
JobCall CallFor(JobMethod<Request, Response> method) {
  return [method](const Connection& connection, std::int64_t id) {
    Request request;
    request.set_id(id);
    return CallForJob(connection, method, request);
  };
}

// Of the whole queue instead of jobs.
using QueueCall = std::function<absl::Status(const Connection&)>;

// Whether --group means this one of its jobs.
using IsMeant = bool (*)(const v1::Job& job);

struct JobControl {
  std::string name;
  std::string help;
  JobCall call;
  IsMeant is_meant;
  QueueCall queue_call = nullptr;  // with it the command has --queue
  bool holds_queue = false;        // what it makes of the queue
  // Asks for the newest job first: none comes to its end, or starts, by what was asked of an
  // earlier one that it waits for.
  bool newest_first = false;
};

// Adds the command, which makes `call` for each id that is given, or for each job that is meant of
// a --group: each is asked once, also after one that failed, and the exit code is the highest.
CLI::App* AddJobControl(CLI::App& app, Invocation& invocation, JobControl control);

// The ids of those jobs of `group` that are meant, oldest first; InvalidArgument when there is no
// such group.
absl::StatusOr<std::vector<std::int64_t>> JobsOfGroup(const Connection& connection,
                                                      const std::string& group, IsMeant is_meant);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_JOB_CONTROL_H_
