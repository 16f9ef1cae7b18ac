#include "tests/client/ctl/tmux.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

namespace stageload::ctl {
namespace {

std::string Quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

bool Within20s(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace

bool Tmux::IsThere() { return system("tmux -V >/dev/null 2>&1") == 0; }

Tmux::Tmux(int columns, int rows, const std::vector<std::string>& environment,
           const std::vector<std::string>& argv) {
  char name[] = "/tmp/sl-tmux.XXXXXX";
  folder_ = mkdtemp(name);
  std::string command = "env";
  for (const std::string& variable : environment) command += " " + Quoted(variable);
  for (const std::string& word : argv) command += " " + Quoted(word);
  // What it leaves on the screen stays to be looked at. tmux 3.3 does not always tell the exit
  // code.
  Ask("new-session -d -x " + std::to_string(columns) + " -y " + std::to_string(rows) + " " +
      Quoted("sleep 0.1; " + command + "; printf $? >" + folder_ + "/code") +
      " \\; set-option -g remain-on-exit on" + " \\; set-option -g status off");
  Resize(columns, rows);
}

Tmux::~Tmux() {
  Ask("kill-server");
  std::filesystem::remove_all(folder_);
}

std::string Tmux::Ask(const std::string& command) const {
  const std::string line =
      "env -u TMUX LC_ALL=C.UTF-8 tmux -f /dev/null -S " + folder_ + "/socket " + command + " 2>&1";
  FILE* answer = popen(line.c_str(), "r");
  if (answer == nullptr) return "";
  std::string text;
  char bytes[4096];
  for (std::size_t got = 0; (got = fread(bytes, 1, sizeof bytes, answer)) > 0;) {
    text.append(bytes, got);
  }
  pclose(answer);
  return text;
}

std::string Tmux::Screen() const { return Ask("capture-pane -p"); }

bool Tmux::Shows(const std::string& text) const {
  return Within20s([&] { return Screen().find(text) != std::string::npos; });
}

bool Tmux::ShowsNot(const std::string& text) const {
  return Within20s([&] { return Screen().find(text) == std::string::npos; });
}

std::string Tmux::Code() const {
  std::string code;
  (void)Within20s([&] {
    std::ifstream(folder_ + "/code") >> code;
    return !code.empty();
  });
  return code;
}

void Tmux::Type(const std::string& key) const { Ask("send-keys " + Quoted(key)); }

void Tmux::Resize(int columns, int rows) const {
  Ask("resize-window -x " + std::to_string(columns) + " -y " + std::to_string(rows));
}

}  // namespace stageload::ctl
