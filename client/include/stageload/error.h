// What the library throws.
//
// Every exception that it throws of its own accord is an Error. `reason()` is one of a few fixed
// words for programs to switch on; `what()` is one line for people, with the figures, and may be
// worded differently tomorrow.
//
// Threading: plain values.
#ifndef STAGELOAD_ERROR_H_
#define STAGELOAD_ERROR_H_

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stageload/telemetry.h"

namespace stageload {

// The status codes of gRPC, by their numbers.
enum class ErrorCode {
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string reason, const std::string& what)
      : std::runtime_error(what), code_(code), reason_(std::move(reason)) {}

  ErrorCode code() const { return code_; }
  // From the daemon: INVALID_FIELD, NEVER_FITS, PEER_REFUSED, TOO_MANY_SESSIONS,
  // TOO_MANY_SUBSCRIBERS, STORE_FAILED... From the library: NO_DAEMON, ADMISSION_TIMEOUT,
  // CANCELLED, STOPPED, SESSION_CLOSED, FORKED, WRONG_THREAD, OTHER_SOCKET, INVALID_FIELD. Empty
  // where the system refused something, such as a file or a socket: code() and what() say what.
  const std::string& reason() const { return reason_; }

 private:
  ErrorCode code_;
  std::string reason_;
};

// There was no room before the timeout, or nobody who said so (ADMISSION_TIMEOUT).
class NoRoom : public Error {
 public:
  NoRoom(const std::string& what, std::vector<Blocker> blockers)
      : Error(ErrorCode::kResourceExhausted, "ADMISSION_TIMEOUT", what),
        blockers_(std::move(blockers)) {}

  // What it waited for at last, with the values read and needed. Empty when nothing was ever told.
  const std::vector<Blocker>& blockers() const { return blockers_; }

 private:
  std::vector<Blocker> blockers_;
};

// It asks for more than this machine or its pool can ever give (NEVER_FITS); what() has the
// arithmetic.
class NeverFits : public Error {
 public:
  explicit NeverFits(const std::string& what)
      : Error(ErrorCode::kInvalidArgument, "NEVER_FITS", what) {}
};

// The session is to end and gets no more leases (STOPPED).
class Stopped : public Error {
 public:
  explicit Stopped(const std::string& what)
      : Error(ErrorCode::kFailedPrecondition, "STOPPED", what) {}
};

// No daemon answers, and none could be started (NO_DAEMON).
class NoDaemon : public Error {
 public:
  explicit NoDaemon(const std::string& what) : Error(ErrorCode::kUnavailable, "NO_DAEMON", what) {}
};

// The caller's own stop token was used (CANCELLED).
class Cancelled : public Error {
 public:
  explicit Cancelled(const std::string& what) : Error(ErrorCode::kCancelled, "CANCELLED", what) {}
};

}  // namespace stageload

#endif  // STAGELOAD_ERROR_H_
