// What each platform tells in a way of its own: doctor_linux.cc, doctor_darwin.cc.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_DOCTOR_PLATFORM_H_
#define STAGELOAD_CLIENT_CTL_DOCTOR_PLATFORM_H_

#include <string>
#include <vector>

#include "client/ctl/doctor_machine.h"

namespace stageload::ctl {

// Fills in platform, name, model, memory and swap.
void ReadPlatform(Machine& machine);
// Linux: the lines of /proc/swaps.
std::vector<SwapArea> SwapAreasIn(const std::string& text);
// Linux: UnitAround(), of the lines of /proc/PID/cgroup.
std::string UnitIn(const std::string& text);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_DOCTOR_PLATFORM_H_
