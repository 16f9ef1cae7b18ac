// Serves in a thread of its own, where the daemon has its main thread.
//
// Threading: made and destroyed by one thread.
#ifndef STAGELOAD_TESTS_DAEMON_RPC_SERVING_THREAD_H_
#define STAGELOAD_TESTS_DAEMON_RPC_SERVING_THREAD_H_

#include <thread>

namespace stageload::rpc {

// `Serving` is a Transport or a Server that has been started; what comes after is to Stop() it.
template <typename Serving>
class ServingThread {
 public:
  explicit ServingThread(Serving& serving)
      : serving_(serving), thread_([&serving] { serving.Serve(); }) {}
  ~ServingThread() {
    serving_.EndServing();
    thread_.join();
  }
  ServingThread(const ServingThread&) = delete;
  ServingThread& operator=(const ServingThread&) = delete;

 private:
  Serving& serving_;
  std::thread thread_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_TESTS_DAEMON_RPC_SERVING_THREAD_H_
