// Fills the templates.
#include "client/ctl/service_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/own_program.h"
#include "base/utf8.h"
#include "client/ctl/service_templates.h"

namespace stageload::ctl {
namespace {

// Those that ResolvePathsOn() reads and a service does not get by itself.
constexpr const char* kVariables[] = {"STAGELOAD_HOME", "STAGELOAD_SOCKET", "XDG_CONFIG_HOME",
                                      "XDG_STATE_HOME"};
// For on_end hooks: launchd gives an agent /usr/bin:/bin:/usr/sbin:/sbin.
constexpr char kMacosPath[] = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

// A control character cannot be in a plist (XML 1.0) nor in a unit's line, and neither may be
// anything but UTF-8: systemd skips such a line (parse_line() in its src/shared/conf-parser.c).
absl::Status CheckText(const std::string& what, const std::string& text) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  // U+FFFE and U+FFFF, which are UTF-8 and no characters of XML 1.0.
  if (absl::StrContains(text, "\xef\xbf\xbe") || absl::StrContains(text, "\xef\xbf\xbf")) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, " \"", absl::CHexEscape(text),
        "\" has a U+FFFE or U+FFFF, which a service's file cannot hold; use another path"));
  }
  const bool control = std::any_of(text.begin(), text.end(), is_control);
  if (!control && IsUtf8(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " \"", control ? absl::Utf8SafeCHexEscape(text) : absl::CHexEscape(text),
                   control ? "\" has a control character" : "\" is not UTF-8",
                   ", which a service's file cannot hold; use another path"));
}

// ListenStream= is not quoted: systemd cuts blanks off its end, and takes a backslash there for a
// line that goes on.
absl::Status CheckListened(const std::string& socket) {
  const bool cut = socket.ends_with(' ') || socket.ends_with('\\');
  if (!cut) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the socket's path \"", socket, "\" ends with a ",
                   socket.ends_with(' ') ? "blank" : "backslash",
                   ", which systemd would cut off; use another path"));
}

absl::Status CheckTerms(const ServiceTerms& terms) {
  if (auto status = CheckText("the daemon's path", terms.daemon); !status.ok()) return status;
  // systemd executes no such path (string_is_safe() in its src/basic/string-util.c).
  if (terms.platform == Platform::kLinux &&
      terms.daemon.find_first_of("\"'\\") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the daemon's path \"", terms.daemon,
        "\" has a quote or a backslash, which systemd takes in no program; move it elsewhere"));
  }
  if (auto status = CheckText("the socket's path", terms.paths.socket); !status.ok()) return status;
  if (terms.platform == Platform::kLinux) {
    if (auto status = CheckListened(terms.paths.socket); !status.ok()) return status;
  }
  if (auto status = CheckText("the logs' folder", terms.paths.logs); !status.ok()) return status;
  for (const auto& [name, value] : terms.variables) {
    if (auto status = CheckText(name, value); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string Fill(const char* form, const std::vector<std::pair<std::string, std::string>>& values) {
  return absl::StrReplaceAll(form, values);
}

std::string Home(const Environment& environment) { return environment("HOME").value_or(""); }

std::string XmlVariable(const std::string& name, const std::string& value) {
  return absl::StrCat("\t\t<key>", name, "</key>\n\t\t<string>", XmlEscape(value), "</string>\n");
}

// "%" begins a specifier (systemd.unit(5)).
std::string Unspecified(const std::string& text) {
  return absl::StrReplaceAll(text, {{"%", "%%"}});
}

ServiceFile LaunchAgent(const ServiceTerms& terms, const Environment& environment) {
  std::string variables = XmlVariable("PATH", kMacosPath);
  for (const auto& [name, value] : terms.variables) variables += XmlVariable(name, value);
  ServiceFile file;
  file.path = absl::StrCat(Home(environment), "/Library/LaunchAgents/", kServiceLabel, ".plist");
  file.socket_line = absl::StrCat("<string>", XmlEscape(terms.paths.socket), "</string>");
  file.text = Fill(kLaunchAgentTemplate, {{"{{DAEMON}}", XmlEscape(terms.daemon)},
                                          {"{{ENVIRONMENT}}", variables},
                                          {"{{ERRORS}}", XmlEscape(ServiceErrors(terms))},
                                          {"{{SOCKET}}", XmlEscape(terms.paths.socket)}});
  return file;
}

std::vector<ServiceFile> Units(const ServiceTerms& terms, const Environment& environment) {
  const std::string config = environment("XDG_CONFIG_HOME").value_or("");
  std::string folder = terms.unit_folder;
  if (folder.empty()) {
    folder = absl::StrCat(config.rfind('/', 0) == 0 ? config : Home(environment) + "/.config",
                          "/systemd/user");
  }
  folder += '/';
  std::string variables;
  for (const auto& [name, value] : terms.variables) {
    absl::StrAppend(&variables, "Environment=", UnitQuote(absl::StrCat(name, "=", value)), "\n");
  }
  ServiceFile service{folder + kServiceUnit, "", ""}, socket{folder + kSocketUnit, "", ""};
  service.text = Fill(kServiceUnitTemplate,
                      {{"{{DAEMON}}", UnitQuote(terms.daemon)}, {"{{ENVIRONMENT}}", variables}});
  // ListenStream= takes the rest of its line as it is.
  const std::string path = Unspecified(terms.paths.socket);
  socket.socket_line = absl::StrCat("ListenStream=", path, "\n");
  socket.text = Fill(kSocketUnitTemplate, {{"{{SOCKET}}", path}});
  return {service, socket};
}

// What UnitQuote() has quoted, or a plain word; empty of one that has more to it.
std::string UnitWord(const std::string& line) {
  const bool quoted = !line.empty() && line.front() == '"';
  std::string word;
  for (std::size_t i = quoted ? 1 : 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted ? c == '"' : c == ' ' || c == '\t') return word;
    const char next = i + 1 < line.size() ? line[i + 1] : '\0';
    const bool escaped = (c == '%' && next == '%') || (c == '\\' && (next == '\\' || next == '"'));
    if ((c == '%' || c == '\\') && !escaped) return "";
    if (escaped) ++i;
    word += line[i];
  }
  return quoted ? "" : word;
}

std::string ProgramInUnit(const std::string& text) {
  const std::string key = "ExecStart=";
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    if (!absl::StartsWith(line, key)) continue;
    // What systemd.service(5) allows before the path.
    const std::size_t begin = line.find_first_not_of("@-:+!|", key.size());
    return begin == std::string::npos ? "" : UnitWord(line.substr(begin));
  }
  return "";
}

std::string ProgramInPlist(const std::string& text) {
  const std::string open = "<string>";
  std::size_t begin = text.find("<key>ProgramArguments</key>");
  if (begin != std::string::npos) begin = text.find(open, begin);
  if (begin == std::string::npos) return "";
  begin += open.size();
  const std::size_t end = text.find("</string>", begin);
  if (end == std::string::npos) return "";
  return absl::StrReplaceAll(
      text.substr(begin, end - begin),
      {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}});
}

}  // namespace

absl::StatusOr<ServiceTerms> TermsFor(Platform platform, const Environment& environment,
                                      const std::string& daemon) {
  auto paths = ResolvePathsOn(platform, environment);
  if (!paths.ok()) return paths.status();
  ServiceTerms terms{platform, StablePath(daemon), *std::move(paths), {}, ""};
  for (const char* name : kVariables) {
    const auto value = environment(name);
    if (value && !value->empty()) terms.variables.emplace_back(name, *value);
  }
  return terms;
}

absl::StatusOr<std::vector<ServiceFile>> ServiceFiles(const ServiceTerms& terms,
                                                      const Environment& environment) {
  if (auto status = CheckTerms(terms); !status.ok()) return status;
  if (Home(environment).rfind('/', 0) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "HOME=\"", absl::Utf8SafeCHexEscape(Home(environment)), "\" is not an absolute path"));
  }
  if (terms.platform == Platform::kMacos) {
    return std::vector<ServiceFile>{LaunchAgent(terms, environment)};
  }
  return Units(terms, environment);
}

std::vector<std::string> ServiceFolders(const ServiceTerms& terms) {
  // systemd makes its socket's folder; launchd makes neither that nor the one of its output.
  if (terms.platform == Platform::kLinux) return {};
  std::vector<std::string> folders = {terms.paths.logs};
  const std::string socket = std::filesystem::path(terms.paths.socket).parent_path().string();
  if (socket != terms.paths.logs) folders.push_back(socket);
  return folders;
}

std::string ServiceErrors(const ServiceTerms& terms) {
  return terms.platform == Platform::kMacos ? terms.paths.logs + "/stageloadd.stderr" : "";
}

std::optional<std::string> ProgramIn(Platform platform, const std::string& text) {
  std::string program = platform == Platform::kMacos ? ProgramInPlist(text) : ProgramInUnit(text);
  if (!absl::StartsWith(program, "/")) return std::nullopt;
  return program;
}

std::string XmlEscape(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&apos;"}});
}

std::string UnitQuote(const std::string& word) {
  return absl::StrCat(
      "\"", absl::StrReplaceAll(Unspecified(word), {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

}  // namespace stageload::ctl
