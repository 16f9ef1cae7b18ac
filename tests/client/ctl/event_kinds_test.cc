// The list of `history`'s kinds, held against what users read and what the daemon writes.
#include "client/ctl/event_kinds.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace stageload::ctl {
namespace {

using testing::UnorderedElementsAreArray;

const std::filesystem::path kProject = STAGELOAD_SOURCE;

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Add>
void ForEachMatch(const std::string& text, const std::regex& pattern, Add add) {
  for (auto match = std::sregex_iterator(text.begin(), text.end(), pattern);
       match != std::sregex_iterator(); ++match) {
    add(*match);
  }
}

TEST(EventKinds, AreThoseOfTheTableInTheDocuments) {
  const std::string page = Contents(kProject / "docs" / "telemetry.md");
  const std::string head = "| kinds | tell of |\n|---|---|\n";
  const std::size_t begin = page.find(head);
  ASSERT_NE(begin, std::string::npos);
  // A table ends with its first empty line.
  const std::size_t end = page.find("\n\n", begin);
  std::vector<std::string> kinds;
  std::size_t at = begin + head.size();
  while (at < end) {
    const std::string row = page.substr(at, page.find('\n', at) - at);
    at += row.size() + 1;
    const std::string first = row.substr(0, row.find(" | "));
    ForEachMatch(first, std::regex("`([a-z_]+)`"),
                 [&](const std::smatch& match) { kinds.push_back(match[1]); });
  }
  EXPECT_THAT(kinds, UnorderedElementsAreArray(EventKinds()));
}

TEST(EventKinds, AreThoseThatTheDaemonWrites) {
  const std::regex note(
      R"re((?:Tell\(effects,|Note\(|Announce\(|core::Note|NoteEvent\(|events\.push_back\()\s*)re"
      R"re(\{?[^";]*"([a-z_]+)"(?: : "([a-z_]+)")?)re");
  std::set<std::string> kinds;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kProject / "daemon")) {
    if (entry.path().extension() != ".cc") continue;
    ForEachMatch(Contents(entry.path()), note, [&](const std::smatch& match) {
      kinds.insert(match[1]);
      if (match[2].matched) kinds.insert(match[2]);
    });
  }
  // In frames only.
  EXPECT_EQ(kinds.erase("submitted") + kinds.erase("refused"), 2U);
  EXPECT_THAT(kinds, UnorderedElementsAreArray(EventKinds()));
}

}  // namespace
}  // namespace stageload::ctl
