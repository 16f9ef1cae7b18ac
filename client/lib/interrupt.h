// What threads of the library wait for, cut short for good by whoever ends the object that they
// work for.
//
// Threading: any thread.
#ifndef STAGELOAD_CLIENT_LIB_INTERRUPT_H_
#define STAGELOAD_CLIENT_LIB_INTERRUPT_H_

#include <grpcpp/client_context.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "absl/time/time.h"

namespace stageload::client {

class Interrupt {
 public:
  // Cancels every call that runs or begins, and ends every pause.
  void Raise();
  bool raised() const;
  // False once it was raised.
  bool Pause(absl::Duration pause);

  // A call that Raise cancels, for as long as this lives. The context must outlive it.
  class Call {
   public:
    Call(Interrupt& interrupt, grpc::ClientContext& context);
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call();

   private:
    Interrupt& interrupt_;
    grpc::ClientContext& context_;
  };

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool raised_ = false;
  std::set<grpc::ClientContext*> calls_;
};

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_INTERRUPT_H_
