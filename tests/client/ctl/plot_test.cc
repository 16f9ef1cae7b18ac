// stageloadctl plot as a program, with no daemon to be had.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "client/ctl/command_path.h"
#include "tests/client/ctl/program.h"
#include "tests/client/ctl/recordings.h"
#include "tests/fixture.h"

namespace stageload::ctl {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kRun =
    "{\"type\":\"start\",\"utc\":\"2026-01-02T03:04:05+00:00\",\"interval\":0.5}\n"
    "{\"type\":\"sample\",\"t\":0,\"footprint\":1048576,\"swap_used\":0,\"level\":80}\n"
    "{\"type\":\"event\",\"kind\":\"stage\",\"stage\":\"<i>'en\\\"code`id`\\n\",\"t\":0.5}\n"
    "{\"type\":\"event\",\"kind\":\"load\",\"name\":\"vae\",\"nbytes\":4096,\"seconds\":0.25,"
    "\"t\":0.75}\n"
    "{\"type\":\"event\",\"kind\":\"mark\",\"note\":\"half\",\"t\":0.8}\n"
    "{\"type\":\"sample\",\"t\":1,\"footprint\":3145728,\"swap_used\":1024,\"level\":70}\n"
    "{\"type\":\"end\"}\n";

class Plot : public testing::Test {
 protected:
  Plot() { std::ofstream(trace_, std::ios::binary) << kRun; }
  std::string PathOf(const std::string& name) const { return folder_.path() + "/" + name; }
  Result Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "plot");
    return RunProgram(PathOf("home"), std::move(arguments));
  }
  std::string Contents(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(PathOf(name), std::ios::binary).rdbuf();
    return text.str();
  }
  // What is written for this name.
  std::string Drawn(const std::string& name) {
    const Result result = Run({trace_, "-o", PathOf(name)});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err + result.out, "");
    return Contents(name);
  }
  std::vector<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename());
    }
    return {names.begin(), names.end()};
  }
  void PutGnuplot(const std::string& script) const {
    std::filesystem::create_directories(PathOf("bin"));
    std::ofstream(PathOf("bin/gnuplot")) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(PathOf("bin/gnuplot"), std::filesystem::perms::all);
  }
  // With a gnuplot that is this shell script.
  Result RunWithGnuplot(const std::string& script, const std::string& name) {
    PutGnuplot(script);
    const std::string path = std::getenv("PATH");
    setenv("PATH", (PathOf("bin") + ":" + path).c_str(), 1);
    Result result = Run({trace_, "-o", PathOf(name)});
    setenv("PATH", path.c_str(), 1);
    return result;
  }
  static bool HaveGnuplot() { return FindCommand("gnuplot", std::getenv("PATH")).ok(); }

  TemporaryFolder folder_;
  std::string trace_ = PathOf("run.jsonl");
};

TEST_F(Plot, WritesAPageThatIsWholeAndReplacesAnOldOne) {
  std::ofstream(PathOf("a.html")) << "old";
  const std::string page = Drawn("a.html");
  EXPECT_THAT(page, AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("</html>\n"),
                          HasSubstr("&lt;i&gt;&#39;en&quot;code`id`"), Not(HasSubstr("<i>"))));
  EXPECT_THAT(Files(), ElementsAre("a.html", "run.jsonl"));
  struct stat found {};
  ASSERT_EQ(stat(PathOf("a.html").c_str(), &found), 0);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(found.st_mode & 0777, 0666 & ~mask);
}

TEST_F(Plot, DrawsSvgAndPngWithGnuplot) {
  if (!HaveGnuplot()) GTEST_SKIP() << "no gnuplot";
  const std::string svg = Drawn("a.svg");
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg"), HasSubstr("</svg>"), HasSubstr("footprint"),
                         HasSubstr("swap used"), HasSubstr("setup"), Not(HasSubstr("<i>"))));
  EXPECT_THAT(Drawn("a.png"), StartsWith("\x89PNG"));
  EXPECT_THAT(Files(), ElementsAre("a.png", "a.svg", "run.jsonl"));
}

TEST_F(Plot, AnSvgIsXmlWhateverTheNamesAre) {
  if (!HaveGnuplot()) GTEST_SKIP() << "no gnuplot";
  if (!FindCommand("python3", std::getenv("PATH")).ok()) GTEST_SKIP() << "no python3 to parse it";
  std::ofstream(trace_, std::ios::binary)
      << "{\"type\":\"sample\",\"t\":0,\"footprint\":1048576,\"swap_used\":0,\"level\":9}\n"
         "{\"type\":\"event\",\"kind\":\"stage\",\"stage\":\"w[i[0]]>3\",\"t\":0}\n"
         "{\"type\":\"event\",\"kind\":\"mark\",\"note\":\"]]]]>> <![CDATA[ ]]>\",\"t\":1}\n"
         "{\"type\":\"sample\",\"t\":2,\"footprint\":3145728,\"swap_used\":0,\"level\":9}\n{"
         "\"type\":\"end\"}\n";
  (void)Drawn("a.svg");
  const std::string parse =
      "python3 -c 'import sys, xml.dom.minidom as x\n"
      "texts = x.parse(sys.argv[1]).getElementsByTagName(\"text\")\n"
      "print(*(node.data for text in texts for node in text.childNodes"
      " if node.nodeType == node.TEXT_NODE), sep=\"\\n\")' ";
  const Result parsed = RunShell(PathOf("home"), parse + PathOf("a.svg"));
  EXPECT_EQ(parsed.code, 0) << parsed.err;
  EXPECT_THAT(parsed.out, AllOf(HasSubstr("w[i[0]]>3"), HasSubstr("]]]]>> <![CDATA[ ]]>")));
}

TEST_F(Plot, LeavesNothingWhenItIsEndedWhileGnuplotDraws) {
  for (const int signal : {SIGINT, SIGTERM}) {
    // Ends when its parent is gone.
    PutGnuplot(
        ": > \"$0.draws\"\n"
        "while kill -0 $PPID 2>/dev/null; do sleep 0.05; done");
    const std::string path = std::getenv("PATH");
    setenv("PATH", (PathOf("bin") + ":" + path).c_str(), 1);
    Program program(PathOf("home"), {"plot", trace_, "-o", PathOf("a.svg")});
    setenv("PATH", path.c_str(), 1);
    ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(PathOf("bin/gnuplot.draws")); }));
    program.Signal(signal);
    EXPECT_EQ(program.Wait(), -signal);
    EXPECT_THAT(Files(), ElementsAre("bin", "run.jsonl"));
    std::filesystem::remove_all(PathOf("bin"));
  }
}

TEST_F(Plot, OfAGnuplotThatSaidNothingItTellsHowThatEnded) {
  EXPECT_THAT(RunWithGnuplot("exit 3", "a.svg").err,
              HasSubstr("gnuplot failed: it exited with 3, and said nothing; a file that ends in"));
  EXPECT_THAT(RunWithGnuplot("kill -9 $$", "a.svg").err,
              HasSubstr("gnuplot failed: it was ended by signal 9; a file that ends in"));
}

TEST_F(Plot, DoesNotDrawOverATrace) {
  const std::string page = PathOf("run.html");
  std::filesystem::rename(trace_, page);
  std::filesystem::create_symlink("run.html", PathOf("link.html"));
  for (const std::string& output : {page, PathOf("link.html")}) {
    const Result result = Run({page, "-o", output});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("-o " + output + ": that is the trace " + page));
  }
  EXPECT_EQ(Contents("run.html"), kRun);
}

TEST_F(Plot, WritesThroughALinkToWhatItNames) {
  std::filesystem::create_directory(PathOf("pages"));
  std::filesystem::create_symlink("pages/there.html", PathOf("one.html"));
  std::filesystem::create_symlink(PathOf("one.html"), PathOf("a.html"));
  for (int i = 0; i < 2; ++i) {  // into no file yet, and over one
    EXPECT_THAT(Drawn("a.html"), HasSubstr("<html"));
    EXPECT_TRUE(std::filesystem::is_symlink(PathOf("a.html")));
    EXPECT_TRUE(std::filesystem::is_symlink(PathOf("one.html")));
    EXPECT_TRUE(std::filesystem::is_regular_file(
        std::filesystem::symlink_status(PathOf("pages/there.html"))));
  }
}

TEST_F(Plot, WithoutGnuplotItSaysHowToGetItAndLeavesNothing) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", PathOf("none").c_str(), 1);
  const Result result = Run({trace_, "-o", PathOf("a.svg")});
  const Result page = Run({trace_, "-o", PathOf("a.html")});
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("apt install gnuplot-nox"),
                                HasSubstr("brew install gnuplot"), HasSubstr(".html")));
  EXPECT_EQ(page.code, 0);
  EXPECT_THAT(Files(), ElementsAre("a.html", "run.jsonl"));
}

TEST_F(Plot, AGnuplotThatFailsIsQuotedAndLeavesNothing) {
  const Result result = RunWithGnuplot("echo no such terminal >&2; exit 1", "a.png");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("failed: no such terminal"));
  EXPECT_THAT(Files(), ElementsAre("bin", "run.jsonl"));
}

TEST_F(Plot, AGnuplotThatDrawsHalfAPictureAndExitsWithZeroReplacesNothing) {
  for (const char* name : {"a.png", "a.svg"}) {
    std::ofstream(PathOf(name)) << "old";
    for (const char* script : {"exit 0", "printf '<svg>'; printf '\\211PNG'; cat >/dev/null"}) {
      const Result result = RunWithGnuplot(script, name);
      EXPECT_EQ(result.code, 1) << name << ": " << script;
      EXPECT_THAT(result.err, HasSubstr("drew no whole picture"));
    }
    EXPECT_EQ(Contents(name), "old");
  }
  EXPECT_THAT(Files(), ElementsAre("a.png", "a.svg", "bin", "run.jsonl"));
}

TEST_F(Plot, WritesCountersSlicesAndInstantsForTraceViewers) {
  const json document = json::parse(Drawn("a.perfetto.json"), nullptr, false);
  ASSERT_TRUE(document.is_object());
  std::vector<std::string> seen;
  for (const json& event : document.at("traceEvents")) {
    std::string line =
        event.at("ph").get<std::string>() + " " + event.at("name").get<std::string>();
    if (event.contains("ts")) line += " @" + event.at("ts").dump();
    if (event.contains("dur")) line += " +" + event.at("dur").dump();
    if (event.at("ph") == "C") line += " = " + event.at("args").at("value").dump();
    seen.push_back(line);
  }
  for (const char* line :
       {"C footprint (bytes) @0 = 1048576", "C footprint (bytes) @1000000 = 3145728",
        "C swap used (bytes) @1000000 = 1024", "C level (%) @1000000 = 70.0", "X setup @0 +500000",
        "X <i>'en\"code`id`\n @500000 +500000", "X load vae, 4 KiB in 0.2s @500000 +250000",
        "i half @800000"}) {
    EXPECT_THAT(seen, testing::Contains(line));
  }
}

TEST_F(Plot, DrawsStagesWithoutAName) {
  for (const std::string stage : {"", ",\"stage\":\"\""}) {
    std::ofstream(trace_, std::ios::binary)
        << "{\"type\":\"sample\",\"t\":0,\"footprint\":5,\"swap_used\":0,\"level\":80}\n"
        << "{\"type\":\"event\",\"kind\":\"stage\",\"t\":0.5" << stage << "}\n"
        << "{\"type\":\"event\",\"kind\":\"stage\",\"stage\":\"decode\",\"t\":0.8}\n"
        << "{\"type\":\"sample\",\"t\":1,\"footprint\":7,\"swap_used\":0,\"level\":80}\n{\"type\":"
           "\"end\"}\n";
    EXPECT_THAT(Drawn("unnamed.html"), HasSubstr("decode"));
  }
}

TEST_F(Plot, SaysWhatItCannotDo) {
  const Result unknown = Run({trace_, "-o", PathOf("a.pdf")});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr(".html, .svg, .png or .perfetto.json"));
  EXPECT_EQ(Run({trace_}).code, 2);
  EXPECT_EQ(Run({trace_, "-o", PathOf("a.html"), "--swap-budget", "8X"}).code, 2);
  EXPECT_EQ(Run({PathOf("none"), "-o", PathOf("a.html")}).code, 1);
  const Result folder = Run({trace_, "-o", PathOf("no/a.html")});
  EXPECT_EQ(folder.code, 1);
  EXPECT_THAT(folder.err, HasSubstr(PathOf("no/a.html")));
  EXPECT_THAT(Files(), ElementsAre("run.jsonl"));
}

#ifdef __linux__
TEST_F(Plot, ADiskThatIsFullIsAnError) {
  std::vector<std::string> names = {"full.html", "full.perfetto.json"};
  if (HaveGnuplot()) names.insert(names.end(), {"full.svg", "full.png"});
  for (const std::string& name : names) {
    std::filesystem::create_symlink("/dev/full", PathOf(name));
    const Result result = Run({trace_, "-o", PathOf(name)});
    EXPECT_EQ(result.code, 1) << name;
    EXPECT_THAT(result.err, HasSubstr("No space left on device")) << name;
  }
}
#endif

TEST_F(Plot, AFileThatMayNotBecomeSoLargeIsAnError) {
  const Result result = RunShell(
      PathOf("home"), "ulimit -f 1; exec \"$CTL\" plot " + trace_ + " -o " + PathOf("large.html"));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("File too large; raise the limit"));
  EXPECT_FALSE(std::filesystem::exists(PathOf("large.html")));
}

TEST_F(Plot, DrawsTheRecordingsBesideEachOther) {
  if (!HaveRecordings()) GTEST_SKIP() << "no recordings at " << STAGELOAD_RECORDINGS;
  const Result result =
      Run({Recording("offload-1"), Recording("staged-1"), "-o", PathOf("a.html")});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(Contents("a.html"),
              AllOf(HasSubstr(">offload-1<"), HasSubstr(">staged-1<"), HasSubstr(">denoise<"),
                    HasSubstr("peak footprint 18.5 GiB"), HasSubstr("swap budget 8 GiB")));
}

}  // namespace
}  // namespace stageload::ctl
