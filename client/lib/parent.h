// Which process an object of the library belongs to: after a fork its thread and its connection are
// the parent's alone.
//
// Threading: any thread.
#ifndef STAGELOAD_CLIENT_LIB_PARENT_H_
#define STAGELOAD_CLIENT_LIB_PARENT_H_

#include <unistd.h>

#include <memory>
#include <utility>

namespace stageload::client {

class Parent {
 public:
  // Whether this is a child of the process in which it was made.
  bool InChild() const { return getpid() != pid_; }

 private:
  const pid_t pid_ = getpid();
};

// In a child: neither joins the thread that is not there nor ends what the parent still uses.
template <typename Core>
void LeaveToParent(std::shared_ptr<Core> core) {
  new std::shared_ptr<Core>(std::move(core));  // NOLINT: meant to stay
}

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_PARENT_H_
