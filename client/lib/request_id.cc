#include "client/lib/request_id.h"

#include <cstdint>
#include <random>

#include "absl/strings/str_cat.h"

namespace stageload::client {

std::string NewRequestId() {
  std::random_device random;
  std::string id;
  for (int word = 0; word < 4; ++word) {
    absl::StrAppend(&id, absl::Hex(std::uint32_t{random()}, absl::kZeroPad8));
  }
  return id;
}

}  // namespace stageload::client
