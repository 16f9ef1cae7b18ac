// Shuts down connections in a thread of its own, since grpc::Server::Shutdown blocks; it is there
// while there is something to do.
//
// Threading: Take() from any thread; Finish() and the destructor from one.
#ifndef STAGELOAD_DAEMON_RPC_REAPER_H_
#define STAGELOAD_DAEMON_RPC_REAPER_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "daemon/rpc/connection.h"

namespace stageload::rpc {

class Reaper {
 public:
  // `on_reaped` is called in the reaper's thread after a connection and its services are gone.
  explicit Reaper(std::function<void()> on_reaped);
  ~Reaper();  // Finish()
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  // Its calls are cancelled at `deadline`. Many with the same deadline take no longer than one.
  void Take(std::unique_ptr<Connection> connection, std::chrono::system_clock::time_point deadline);

  // Returns when all that was taken is gone.
  void Finish();

 private:
  struct Leaving {
    std::unique_ptr<Connection> connection;
    std::chrono::system_clock::time_point deadline;
  };

  void Run();
  // Empty when nobody has left for a while, or at the end. Gives freed memory back when a wave of
  // departures has passed.
  Leaving Next(std::size_t& reaped);

  const std::function<void()> on_reaped_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Leaving> queue_;
  bool finishing_ = false;
  bool running_ = false;  // the thread will look at queue_ again
  std::thread thread_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_REAPER_H_
