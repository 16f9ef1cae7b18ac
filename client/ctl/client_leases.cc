// Finds a client's part of a frame.
#include "client/ctl/client_leases.h"

#include <string>

#include "client/ctl/outcome.h"

namespace stageload::ctl {

bool IsActive(const v1::Job& job) {
  return job.state() != v1::JOB_STATE_PENDING && !IsEnd(job.state());
}

const v1::ClientSample* ClientOf(const v1::Frame& frame, std::int64_t id) {
  for (const v1::ClientSample& client : frame.clients()) {
    if (client.job_id() == id) return &client;
  }
  return nullptr;
}

std::vector<const v1::WaitingRequest*> WaitingLeasesOf(const v1::Frame& frame, std::int64_t id) {
  std::vector<const v1::WaitingRequest*> leases;
  for (const v1::WaitingRequest& request : frame.waiting()) {
    if (request.job_id() == id && request.lease_id() != 0) leases.push_back(&request);
  }
  return leases;
}

Json ToJson(const v1::Job& job, const v1::Frame& frame) {
  Json json = ToJson(job);
  const v1::ClientSample* client = IsActive(job) ? ClientOf(frame, job.id()) : nullptr;
  if (client == nullptr) return json;
  json["stage"] = std::string(client->stage());
  json["leases"] = Json::array();
  for (const v1::LeaseSample& lease : client->leases()) json["leases"].push_back(ToJson(lease));
  json["waiting_leases"] = Json::array();
  for (const v1::WaitingRequest* request : WaitingLeasesOf(frame, job.id())) {
    json["waiting_leases"].push_back(ToJson(*request));
  }
  json["gauges"] = Json::array();
  for (const v1::Gauge& gauge : client->gauges()) json["gauges"].push_back(ToJson(gauge));
  return json;
}

}  // namespace stageload::ctl
