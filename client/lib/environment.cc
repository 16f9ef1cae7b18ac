// Reads environ.
#include "client/lib/environment.h"

#ifdef __APPLE__
#include <crt_externs.h>
#else
#include <unistd.h>
#endif

#include "absl/strings/str_cat.h"

namespace stageload::client {

std::vector<std::string> OwnEnvironment() {
#ifdef __APPLE__
  char** variables = *_NSGetEnviron();
#else
  char** variables = environ;
#endif
  std::vector<std::string> list;
  for (; variables != nullptr && *variables != nullptr; ++variables) list.emplace_back(*variables);
  return list;
}

void SetVariable(std::vector<std::string>& environment, const std::string& name,
                 const std::string& value) {
  const std::string prefix = absl::StrCat(name, "=");
  std::string variable = absl::StrCat(prefix, value);
  for (std::string& present : environment) {
    if (present.starts_with(prefix)) {
      present = std::move(variable);
      return;
    }
  }
  environment.push_back(std::move(variable));
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace stageload::client
