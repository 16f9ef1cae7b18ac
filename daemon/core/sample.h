// One reading of the machine, as the rules see it.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_CORE_SAMPLE_H_
#define STAGELOAD_DAEMON_CORE_SAMPLE_H_

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "daemon/core/ids.h"
#include "daemon/core/process.h"

namespace stageload::core {

enum class Pressure { kNormal, kWarn, kCritical };
const char* Name(Pressure pressure);  // "warn"

// System-wide memory at one instant. Absent is "could not be read", never 0.
struct HostSample {
  std::optional<Percent> level;    // memory available; macOS kern.memorystatus_level
  std::optional<Bytes> total;      // physical memory, or the limit of the daemon's cgroup
  std::optional<Bytes> available;  // what can be had without swapping
  std::optional<Bytes> swap_used;
  std::optional<Bytes> swap_total;
  std::optional<Pressure> pressure;
  // Anonymous pages that could be compressed, of all programs: macOS
  // vm.page_pageable_internal_count.
  std::optional<Bytes> pageable_internal;
  std::optional<Bytes> compressed;         // held by the compressor (macOS), by zswap (Linux)
  std::optional<Bytes> wired;              // cannot be paged: macOS wired, Linux Unevictable
  std::optional<Bytes> swapped_in_total;   // since boot, cumulative
  std::optional<Bytes> swapped_out_total;  // since boot, cumulative
  // What a user lets the GPU wire at most: macOS iogpu.wired_limit_mb. Absent while the system
  // chooses, and where there is no such GPU.
  std::optional<Bytes> gpu_wired_limit;
};

// What one client's processes hold at that instant.
struct ClientUsage {
  JobId id{};
  Usage usage;
  int processes = 0;
};

// Whether a process that is not ours matches one of the `busy` patterns that requests wait for.
struct BusyReading {
  std::string pattern;
  std::string match;  // "412 ollama serve" of one that does; empty when none does
};

// `clients` is in ascending order of id and holds only those that were read; `busy` likewise holds
// only patterns that were looked for.
struct Sample {
  HostSample host;
  std::vector<ClientUsage> clients;
  std::vector<BusyReading> busy = {};
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_SAMPLE_H_
