// Recorded runs of a real machine that lie beside the project and are no part of it.
#ifndef STAGELOAD_TESTS_CLIENT_CTL_RECORDINGS_H_
#define STAGELOAD_TESTS_CLIENT_CTL_RECORDINGS_H_

#include <filesystem>
#include <string>

namespace stageload::ctl {

inline std::string Recording(const std::string& name) {
  return std::string(STAGELOAD_RECORDINGS) + "/" + name + ".trace.jsonl";
}
inline bool HaveRecordings() { return std::filesystem::is_directory(STAGELOAD_RECORDINGS); }

}  // namespace stageload::ctl

#endif  // STAGELOAD_TESTS_CLIENT_CTL_RECORDINGS_H_
