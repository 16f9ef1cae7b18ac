// The words that programs switch on, carried in ErrorInfo.reason on the wire and as a payload of an
// absl::Status inside the daemon, so that a message for people can be reworded at will.
//
// Threading: pure functions.
#ifndef STAGELOAD_BASE_ERROR_REASON_H_
#define STAGELOAD_BASE_ERROR_REASON_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace stageload {

inline constexpr std::string_view kJobNotFound = "JOB_NOT_FOUND";
inline constexpr std::string_view kJobEnded = "JOB_ENDED";
inline constexpr std::string_view kWrongState = "WRONG_STATE";
inline constexpr std::string_view kProfileNotFound = "PROFILE_NOT_FOUND";
inline constexpr std::string_view kQueueFull = "QUEUE_FULL";
inline constexpr std::string_view kNeverFits = "NEVER_FITS";
inline constexpr std::string_view kAdmissionTimeout = "ADMISSION_TIMEOUT";
inline constexpr std::string_view kInvalidField = "INVALID_FIELD";
inline constexpr std::string_view kInvalidConfig = "INVALID_CONFIG";
inline constexpr std::string_view kNoSample = "NO_SAMPLE";
inline constexpr std::string_view kShuttingDown = "SHUTTING_DOWN";
inline constexpr std::string_view kStoreFailed = "STORE_FAILED";
inline constexpr std::string_view kPeerRefused = "PEER_REFUSED";
inline constexpr std::string_view kClientNotFound = "CLIENT_NOT_FOUND";
inline constexpr std::string_view kLeaseNotFound = "LEASE_NOT_FOUND";
inline constexpr std::string_view kTooManySessions = "TOO_MANY_SESSIONS";
inline constexpr std::string_view kTooManySubscribers = "TOO_MANY_SUBSCRIBERS";

// `status` with the reason attached; `field` is the request's field that it is about, or empty.
absl::Status WithReason(absl::Status status, std::string_view reason, std::string_view field = "");
// Empty when none was attached.
std::string ReasonOf(const absl::Status& status);
std::string FieldOf(const absl::Status& status);

}  // namespace stageload

#endif  // STAGELOAD_BASE_ERROR_REASON_H_
