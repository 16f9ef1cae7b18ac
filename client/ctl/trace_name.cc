#include "client/ctl/trace_name.h"

#include <set>

namespace stageload::ctl {
namespace {

std::string NameOf(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  for (const std::string suffix : {".jsonl", ".json", ".trace"}) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) {
      name.resize(name.size() - suffix.size());
    }
  }
  return name;
}

}  // namespace

std::vector<std::string> TraceNames(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(NameOf(path));
  const std::set<std::string> different(names.begin(), names.end());
  return different.size() == names.size() ? names : paths;
}

std::string TracePath(const std::string& word) { return word == "-" ? "/dev/stdin" : word; }

}  // namespace stageload::ctl
