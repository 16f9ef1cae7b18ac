// A client of the library that does what a test wants and says what happens, a line each:
//
//   session_program SOCKET NAME idle                is registered, and nothing else, until SIGTERM
//   session_program SOCKET NAME hold STAGE MIB FILE takes a lease and holds it until FILE exists
//   session_program SOCKET NAME meter TRACE MIB     records itself as it takes MIB and frees them
#include <signal.h>
#include <stageload/meter.h>
#include <stageload/session.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using std::chrono::milliseconds;

void Say(const std::string& line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::cout << line << std::endl;
}

void Await(const std::string& file) {
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(milliseconds(20));
}

stageload::SessionOptions Options(const std::string& socket, const std::string& name) {
  stageload::SessionOptions options;
  options.socket = socket;
  options.name = name;
  options.wait_free_percent = 0;
  options.autostart = false;
  options.require = true;
  options.on_stop = [](const stageload::StopRequest& stop) { Say("stop: " + stop.reason); };
  options.on_event = [](const stageload::SessionEvent& event) {
    switch (event.kind) {
      case stageload::SessionEvent::Kind::kLost:
        return Say("lost");
      case stageload::SessionEvent::Kind::kRestored:
        return Say("restored: " + event.text);
      case stageload::SessionEvent::Kind::kNoDaemon:
        return Say("no daemon");
      case stageload::SessionEvent::Kind::kEnded:
        return Say("ended");
    }
  };
  return options;
}

void Hold(stageload::Session& session, const std::string& stage, std::int64_t bytes,
          const std::string& file) {
  stageload::AcquireOptions options;
  options.on_wait = [](const stageload::Waiting& waiting) {
    Say("waiting: " + waiting.blockers.front().kind + ": " + waiting.blockers.front().text);
  };
  const stageload::Lease lease = session.Acquire(stage, bytes, options);
  Say("granted");
  Await(file);
}

void Record(const std::string& socket, const std::string& path, std::int64_t bytes) {
  stageload::MeterOptions options;
  options.socket = socket;
  options.interval = milliseconds(50);
  options.autostart = false;
  stageload::MemoryMeter meter(path, options);
  std::this_thread::sleep_for(milliseconds(300));
  meter.Stage("loaded");
  {
    std::vector<char> memory(static_cast<std::size_t>(bytes), 1);
    // g++ 16 would not take memory that nobody looks at.
    asm volatile("" : : "r"(memory.data()) : "memory");
    meter.Load("memory", bytes, 0);
    std::this_thread::sleep_for(milliseconds(300));
  }
  meter.Release("memory", bytes, 0);
  meter.Stage("freed");
  std::this_thread::sleep_for(milliseconds(300));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  sigset_t terminates;
  sigemptyset(&terminates);
  sigaddset(&terminates, SIGTERM);
  try {
    const std::string& verb = arguments.at(2);
    if (verb == "meter") {
      Record(arguments[0], arguments.at(3), std::stoll(arguments.at(4)) * 1024 * 1024);
      return 0;
    }
    if (verb == "idle") pthread_sigmask(SIG_BLOCK, &terminates, nullptr);
    stageload::Session session(Options(arguments[0], arguments[1]));
    Say("registered " + std::to_string(session.client_id()));
    if (verb == "hold") {
      Hold(session, arguments.at(3), std::stoll(arguments.at(4)) * 1024 * 1024, arguments.at(5));
      Say("released");
    } else {
      int signal = 0;
      sigwait(&terminates, &signal);
    }
  } catch (const stageload::Error& error) {
    Say(error.reason() + ": " + error.what());
    return 1;
  }
  return 0;
}
