// Linux: /proc/swaps, /etc/os-release, /proc/PID/limits and /proc/PID/stat.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/ctl/doctor_platform.h"

namespace stageload::ctl {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// PRETTY_NAME of os-release(5).
std::string SystemName() {
  std::istringstream lines(Contents("/etc/os-release"));
  const std::string key = "PRETTY_NAME=";
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, key.size(), key) == 0) {
      return absl::StrReplaceAll(line.substr(key.size()), {{"\"", ""}});
    }
  }
  return "";
}

// "\\040" is a blank: seq_file_path() in the kernel's mm/swapfile.c escapes blanks, tabs, newlines
// and backslashes by three octal digits.
std::string Unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      const char c = at < text.size() ? text[at] : '\0';
      return c >= '0' && c <= '7' ? c - '0' : -1;
    };
    const int high = digit(i + 1), middle = digit(i + 2), low = digit(i + 3);
    if (text[i] == '\\' && high >= 0 && high <= 3 && middle >= 0 && low >= 0) {
      plain += static_cast<char>(high * 64 + middle * 8 + low);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::optional<std::uint64_t> ToNumber(const std::string& word) {
  if (word == "unlimited") return std::numeric_limits<std::uint64_t>::max();
  std::uint64_t number = 0;
  if (!absl::SimpleAtoi(word, &number)) return std::nullopt;
  return number;
}

// "Max open files            1024                 524288               files"
std::optional<Limit> LimitIn(const std::string& text, const std::string& name) {
  const std::size_t begin = text.find(name);
  if (begin == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(begin + name.size(), 200));
  std::string soft, hard;
  words >> soft >> hard;
  const auto soft_number = ToNumber(soft), hard_number = ToNumber(hard);
  if (!soft_number || !hard_number) return std::nullopt;
  return Limit{*soft_number, *hard_number};
}

}  // namespace

// Filename, Type, Size in KiB, Used, Priority; the first line is a title (proc(5)).
std::vector<SwapArea> SwapAreasIn(const std::string& text) {
  std::istringstream lines(text);
  std::vector<SwapArea> areas;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    SwapArea area;
    std::int64_t size = 0;
    if (words >> area.path >> area.kind >> size) {
      area.path = Unescaped(area.path);
      area.size = KiB(size);
      areas.push_back(area);
    }
  }
  return areas;
}

void ReadPlatform(Machine& machine) {
  machine.platform = Platform::kLinux;
  machine.name = SystemName();
  machine.memory = Bytes(::sysconf(_SC_PHYS_PAGES)) * machine.page.AsDouble();
  machine.swap_areas = SwapAreasIn(Contents("/proc/swaps"));
}

std::optional<Limits> LimitsOf(int pid) {
  const std::string text = Contents(absl::StrCat("/proc/", pid, "/limits"));
  if (text.empty()) return std::nullopt;
  return Limits{LimitIn(text, "Max open files"), LimitIn(text, "Max processes")};
}

char StateOf(int pid) {
  const std::string text = Contents(absl::StrCat("/proc/", pid, "/stat"));
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '?' : text[name_end + 2];
}

bool HasOpen(int pid, dev_t device, ino_t inode) {
  std::error_code error;
  const std::filesystem::path folder = absl::StrCat("/proc/", pid, "/fd");
  std::filesystem::directory_iterator descriptors(folder, error);
  for (; !error && descriptors != std::filesystem::directory_iterator();
       descriptors.increment(error)) {
    struct stat found {};
    if (::stat(descriptors->path().c_str(), &found) == 0 && found.st_dev == device &&
        found.st_ino == inode) {
      return true;
    }
  }
  return false;
}

// "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u12.service" (cgroups(7));
// without the second hierarchy systemd's own is "1:name=systemd:/...".
std::string UnitIn(const std::string& text) {
  std::istringstream lines(text);
  std::string unit;
  for (std::string line; std::getline(lines, line);) {
    if (!absl::StartsWith(line, "0::/") && !absl::StrContains(line, ":name=systemd:/")) continue;
    std::string found;
    for (const std::string& name : std::vector<std::string>(absl::StrSplit(line, '/'))) {
      if (absl::EndsWith(name, ".service") || absl::EndsWith(name, ".scope")) found = name;
    }
    if (!found.empty()) unit = found;
  }
  // A login's scope and the user's manager last as long as who logged in; systemd-run's, which
  // begin with "run-", as long as one command.
  const bool lasts = absl::StartsWith(unit, "user@") || absl::StartsWith(unit, "stageloadd.") ||
                     (absl::EndsWith(unit, ".scope") && !absl::StartsWith(unit, "run-"));
  return lasts ? "" : unit;
}

std::string UnitAround(int pid) { return UnitIn(Contents(absl::StrCat("/proc/", pid, "/cgroup"))); }

std::string ProgramChange(int pid) {
  std::error_code error;
  std::string path =
      std::filesystem::read_symlink(absl::StrCat("/proc/", pid, "/exe"), error).string();
  // proc(5), of /proc/PID/exe.
  const std::string mark = " (deleted)";
  if (error || !absl::EndsWith(path, mark)) return "";
  path.resize(path.size() - mark.size());
  return absl::StrCat(path,
                      std::filesystem::exists(path, error) ? " was replaced" : " was removed");
}

}  // namespace stageload::ctl
