// Adds digits until the texts differ.
#include "base/differing_sizes.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"

namespace stageload {
namespace {

constexpr int kMostDecimals = 4;  // a byte says more than a fifth

double SizeOf(const std::string& unit) {
  double size = 1;
  for (const char* each : {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}) {
    size *= 1024;
    if (unit == each) return size;
  }
  return 1;
}

std::string WithDecimals(double value, int decimals) {
  std::string text = absl::StrFormat("%.*f", decimals, value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

SizeTexts FormatDiffering(Bytes first, Bytes second) {
  const SizeTexts usual{FormatBytes(first), FormatBytes(second)};
  if (usual.first != usual.second || first == second) return usual;
  const std::string unit = usual.first.substr(usual.first.find(' ') + 1);
  const double size = SizeOf(unit);
  for (int decimals = 1; decimals <= kMostDecimals; ++decimals) {
    const std::string a = WithDecimals(first.AsDouble() / size, decimals);
    const std::string b = WithDecimals(second.AsDouble() / size, decimals);
    if (a != b) return {absl::StrCat(a, " ", unit), absl::StrCat(b, " ", unit)};
  }
  return {absl::StrCat(first.count(), " B"), absl::StrCat(second.count(), " B")};
}

}  // namespace stageload
