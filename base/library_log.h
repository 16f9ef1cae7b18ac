// What libraries log by themselves: gRPC does by Abseil's log, in the versions that have one, and
// that writes to standard error.
//
// Threading: called once, before the first call of gRPC.
#ifndef STAGELOAD_BASE_LIBRARY_LOG_H_
#define STAGELOAD_BASE_LIBRARY_LOG_H_

namespace stageload {

// For programs, whose standard error is for people and scripts: what goes wrong comes back as a
// status and is said by us. Only what ends the program is logged from now on.
void SilenceLibraryLog();

}  // namespace stageload

#endif  // STAGELOAD_BASE_LIBRARY_LOG_H_
