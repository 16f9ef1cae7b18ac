// Mistakes that can be put into the core on purpose, to show that the simulator finds them
// (tests/sim). Only a build with STAGELOAD_FAULTS has them; in every other IsOn() is a constant.
//
// Threading: constants; in a build with faults, one thread.
#ifndef STAGELOAD_DAEMON_CORE_FAULT_H_
#define STAGELOAD_DAEMON_CORE_FAULT_H_

namespace stageload::core {

enum class Fault {
  kNone,
  kReservationsIgnored,    // declared and not held yet counts as free
  kBypassUnbounded,        // any number may pass one that waits for memory
  kSecondVictimAtOnce,     // the next host-level victim while one is still going
  kStaleSampleAdmitted,    // an old sample is as good as a new one
  kNotRebasedAfterSleep,   // swap that grew over a sleep is charged
  kIdentityUnchecked,      // a pid that was used again is signalled
  kJobLostOnRestart,       // a waiting job of the daemon before is forgotten
  kHeldOfStoppingRefused,  // what a client that is being stopped has loaded is declared nowhere
};

#ifdef STAGELOAD_FAULTS
inline Fault switched_on = Fault::kNone;
inline bool IsOn(Fault fault) { return fault == switched_on; }
#else
constexpr bool IsOn(Fault) { return false; }
#endif

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_FAULT_H_
