// A pipeline of three stages that do not fit into memory together, so each takes a lease for what
// it loads. Run two of them at once and they take turns:
//
//   pipeline NAME [MIB [MILLISECONDS [WAIT_FREE]]]
//
// Each stage takes MIB (64) of memory and holds it for MILLISECONDS (500). It starts while
// WAIT_FREE (40) percent of the machine's memory are available. docs/library.md explains it.
#include <stageload/session.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace {

// What loading weights and computing with them would be.
void Load(std::vector<char>& memory, std::int64_t bytes) {
  memory.resize(static_cast<std::size_t>(bytes));
  for (std::size_t at = 0; at < memory.size(); at += 4096) memory[at] = 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t bytes = (argc > 2 ? std::atoll(argv[2]) : 64) * 1024 * 1024;
  const std::chrono::milliseconds pause(argc > 3 ? std::atoi(argv[3]) : 500);

  stageload::SessionOptions options;
  options.name = argc > 1 ? argv[1] : "pipeline";
  if (argc > 4) options.wait_free_percent = std::atof(argv[4]);
  options.require = true;
  options.on_stop = [](const stageload::StopRequest& stop) {
    std::cerr << "asked to stop: " << stop.text << "\n";
  };
  try {
    stageload::Session session(options);
    stageload::AcquireOptions waits;
    waits.timeout = std::chrono::minutes(5);
    waits.stop = session.stop_token();
    waits.on_wait = [](const stageload::Waiting& waiting) {
      const stageload::Blocker& first = waiting.blockers.front();
      std::cerr << "waiting: " << first.kind << ": " << first.text << "\n";
    };
    for (const std::string stage : {"text encoder", "transformer", "decode"}) {
      const stageload::Lease lease = session.Acquire(stage, bytes, waits);
      std::cout << options.name << ": " << stage << std::endl;
      std::vector<char> memory;
      Load(memory, bytes);
      session.Report({{"loaded_bytes", static_cast<double>(bytes)}});
      std::this_thread::sleep_for(pause);
      // The memory goes first, then the lease.
    }
  } catch (const stageload::NoRoom& error) {
    std::cerr << "no room: " << error.what() << "\n";
    return 4;
  } catch (const stageload::Error& error) {
    std::cerr << error.reason() << ": " << error.what() << "\n";
    return 1;
  }
  std::cout << options.name << ": done" << std::endl;
  return 0;
}
