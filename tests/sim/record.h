// The last lines of a run, to be read when it has failed. Off, it costs nothing: a run that fails
// is simply done again with it on.
//
// Threading: one owner.
#ifndef STAGELOAD_TESTS_SIM_RECORD_H_
#define STAGELOAD_TESTS_SIM_RECORD_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <utility>

namespace stageload::sim {

class Record {
 public:
  explicit Record(bool on, std::function<void(const std::string&)> each = nullptr)
      : on_(on), each_(std::move(each)) {}
  bool on() const { return on_; }
  void Add(std::string line) {
    if (!on_) return;
    if (each_) each_(line);
    lines_.push_back(std::move(line));
    if (lines_.size() > kLines) lines_.pop_front();
  }
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  static constexpr std::size_t kLines = 40;
  bool on_;
  std::function<void(const std::string&)> each_;
  std::deque<std::string> lines_;
};

}  // namespace stageload::sim

#endif  // STAGELOAD_TESTS_SIM_RECORD_H_
