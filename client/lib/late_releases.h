// Leases that are given back to a daemon which does not answer: it is told as soon as it does, and
// nobody waits for that.
//
// Threading: any thread. One of its own is there while something is to be told. (gRPC's calls with
// a callback would need none, but in 1.51 their queue may abort the process as its last channel
// goes.)
#ifndef STAGELOAD_CLIENT_LIB_LATE_RELEASES_H_
#define STAGELOAD_CLIENT_LIB_LATE_RELEASES_H_

#include <grpcpp/channel.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "client/lib/interrupt.h"
#include "stageload/v1/admission_service.pb.h"

namespace stageload::client {

class LateReleases {
 public:
  // Once that was raised, nothing is told any more: the registration's end gives back all.
  explicit LateReleases(Interrupt& interrupt) : interrupt_(interrupt) {}
  LateReleases(const LateReleases&) = delete;
  LateReleases& operator=(const LateReleases&) = delete;
  ~LateReleases() { Join(); }

  void Add(std::shared_ptr<grpc::Channel> channel, v1::ReleaseRequest request);
  // After the interrupt was raised.
  void Join();

 private:
  struct Release {
    std::shared_ptr<grpc::Channel> channel;
    v1::ReleaseRequest request;
  };

  void Run();
  std::optional<Release> Next();

  Interrupt& interrupt_;
  std::mutex mutex_;
  std::deque<Release> releases_;
  bool running_ = false;
  std::thread thread_;
};

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_LATE_RELEASES_H_
