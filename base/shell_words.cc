#include "base/shell_words.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace stageload {
namespace {

// What no shell reads as anything but itself, wherever it stands in a word.
bool IsPlain(char c) {
  constexpr std::string_view kPlain = "_@%+=:,./-";
  const auto byte = static_cast<unsigned char>(c);
  return absl::ascii_isalnum(byte) || byte >= 0x80 || kPlain.find(c) != std::string_view::npos;
}

bool IsControl(char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); }

std::string Escaped(const std::string& word) {
  std::string escaped = "$'";
  for (const char c : word) {
    if (c == '\n' || c == '\t') {
      escaped += c == '\n' ? "\\n" : "\\t";
    } else if (IsControl(c)) {
      // Three octal digits: a digit that follows is none of them.
      const auto byte = static_cast<unsigned>(static_cast<unsigned char>(c));
      absl::StrAppend(&escaped, "\\", byte / 64, byte / 8 % 8, byte % 8);
    } else {
      if (c == '\'' || c == '\\') escaped += '\\';
      escaped += c;
    }
  }
  return escaped + "'";
}

std::string Quoted(const std::string& word) {
  // zsh reads "=ls" as the path of ls.
  if (!word.empty() && word.front() != '=' && std::all_of(word.begin(), word.end(), IsPlain))
    return word;
  if (std::any_of(word.begin(), word.end(), IsControl)) return Escaped(word);
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace

std::string ShellWords(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) {
    absl::StrAppend(&text, text.empty() ? "" : " ", Quoted(word));
  }
  return text;
}

}  // namespace stageload
