#include "client/ctl/signals.h"

#include <optional>
#include <utility>

namespace stageload::ctl {

SignalEvents::SignalEvents(const std::vector<int>& signals, std::function<void(int)> on_signal)
    : pipe_(signals), thread_([this, handle = std::move(on_signal)] {
        while (const std::optional<int> number = pipe_.Take()) handle(*number);
      }) {}

SignalEvents::~SignalEvents() {
  pipe_.End();
  thread_.join();
}

}  // namespace stageload::ctl
