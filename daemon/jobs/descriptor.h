// A file descriptor that closes itself.
//
// Threading: one owner.
#ifndef STAGELOAD_DAEMON_JOBS_DESCRIPTOR_H_
#define STAGELOAD_DAEMON_JOBS_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace stageload::jobs {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }

  int get() const { return number_; }
  bool ok() const { return number_ >= 0; }
  void Close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_DESCRIPTOR_H_
