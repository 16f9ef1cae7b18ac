// What is to happen when, in one order: by time, then as it was put down.
//
// Threading: one owner.
#ifndef STAGELOAD_TESTS_SIM_AGENDA_H_
#define STAGELOAD_TESTS_SIM_AGENDA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/time.h"

namespace stageload::sim {

class Agenda {
 public:
  void At(absl::Duration time, std::function<void()> what) {
    // Clocks tick in whole nanoseconds; absl::Duration is finer.
    items_.emplace(std::make_pair(absl::Ceil(time, absl::Nanoseconds(1)), next_++),
                   std::move(what));
  }
  absl::Duration Next() const {
    return items_.empty() ? absl::InfiniteDuration() : items_.begin()->first.first;
  }
  // Does all that is due. What is put down meanwhile for now is done too.
  void Run(absl::Duration now) {
    while (!items_.empty() && items_.begin()->first.first <= now) {
      auto item = items_.extract(items_.begin());
      item.mapped()();
    }
  }

 private:
  std::map<std::pair<absl::Duration, std::uint64_t>, std::function<void()>> items_;
  std::uint64_t next_ = 0;
};

}  // namespace stageload::sim

#endif  // STAGELOAD_TESTS_SIM_AGENDA_H_
