// Clients submit while the daemon is killed again and again: every acknowledged job ends exactly
// once, with its own exit code, and nothing runs twice or is left running.
//
// A small storm by default; STAGELOAD_STORM_JOBS and STAGELOAD_STORM_KILLS make a bigger one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/e2e/daemon_fixture.h"
#include "tests/e2e/processes.h"

namespace stageload::e2e {
namespace {

constexpr int kClients = 16;

int FromEnvironment(const char* name, int otherwise) {
  const char* text = getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(ReadFile(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

class KillStorm : public DaemonTest {
 protected:
  // Submits `jobs` jobs one after another, with exit codes 0 to 199, and writes down each that was
  // acknowledged: "<word> <id> <code>". A submit that failed is tried again under another word.
  ChildProcess StartClient(int client, int jobs) {
    const std::string script = absl::StrCat(
        "n=0; while [ $n -lt ", jobs, " ]; do try=0; while :; do word=", client, "-$n-$try; ",
        "code=$(((n * ", kClients, " + ", client, ") % 200)); ", "if id=$('", kCtlProgram,
        "' submit --memory 1M -- sh -c \"echo $word >> started; exit $code\"); then ",
        "echo \"$word $id $code\" >> acknowledged; break; fi; try=$((try + 1)); sleep 0.05; done; ",
        "n=$((n + 1)); done");
    return ChildProcess({.argv = {"/bin/sh", "-c", script},
                         .environment = Environment({"STAGELOAD_NO_AUTOSTART=1"}),
                         .directory = folder(),
                         .input = "",
                         .output = absl::StrCat(folder(), "/output/client", client)});
  }
};

TEST_F(KillStorm, EveryAcknowledgedJobEndsExactlyOnceWithItsOwnCode) {
  const int jobs = FromEnvironment("STAGELOAD_STORM_JOBS", 160);
  const int kills = FromEnvironment("STAGELOAD_STORM_KILLS", 16);
  const absl::Time start = absl::Now();
  StartDaemon();
  std::vector<ChildProcess> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.push_back(StartClient(client, jobs / kClients));
  }
  std::mt19937 random(20261129);  // NOLINT: the same storm each time
  int killed = 0;
  for (; killed < kills; ++killed) {
    absl::SleepFor(absl::Milliseconds(std::uniform_int_distribution<int>(5, 200)(random)));
    KillDaemon();
    StartDaemon();
  }
  for (ChildProcess& client : clients) {
    EXPECT_EQ(client.Wait(absl::Minutes(10)).exit_code, 0);
  }

  std::map<std::string, int> started;
  const std::vector<std::string> acknowledged = LinesOf(PathOf("acknowledged"));
  EXPECT_EQ(acknowledged.size(), static_cast<std::size_t>(jobs / kClients * kClients));
  for (const std::string& line : acknowledged) {
    std::istringstream fields(line);
    std::string word;
    std::int64_t id = 0;
    int code = -1;
    fields >> word >> id >> code;
    ASSERT_TRUE(Reaches(id, code == 0 ? "COMPLETED" : "FAILED")) << line;
    EXPECT_EQ(Show(id).value("exit_code", -1), code) << line;
    started[word] = 0;
  }
  int unacknowledged = 0;
  for (const std::string& word : LinesOf(PathOf("started"))) {
    const auto found = started.find(word);
    if (found == started.end()) ++unacknowledged;
    if (found != started.end()) ++found->second;
  }
  for (const auto& [word, times] : started) EXPECT_EQ(times, 1) << word;
  EXPECT_TRUE(Eventually([&] { return CtlJson({"queue"})["jobs"].empty(); }));
  std::cout << acknowledged.size() << " jobs of " << kClients << " clients through " << killed
            << " kills in " << absl::FormatDuration(absl::Now() - start) << "; " << unacknowledged
            << " ran whose submit was not answered\n";
}

}  // namespace
}  // namespace stageload::e2e
