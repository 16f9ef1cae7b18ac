// Threads that the program which links the library should not notice: its signals are its own.
//
// Threading: any thread.
#ifndef STAGELOAD_CLIENT_LIB_QUIET_THREAD_H_
#define STAGELOAD_CLIENT_LIB_QUIET_THREAD_H_

#include <signal.h>

#include <functional>
#include <thread>
#include <utility>

namespace stageload::client {

// All signals, for the calling thread and those that it makes meanwhile, as gRPC does at its start.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

inline std::thread QuietThread(std::function<void()> run) {
  const SignalsBlocked blocked;
  return std::thread(std::move(run));
}

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_QUIET_THREAD_H_
