// What recordings are called where they stand beside each other.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_TRACE_NAME_H_
#define STAGELOAD_CLIENT_CTL_TRACE_NAME_H_

#include <string>
#include <vector>

namespace stageload::ctl {

// The files' names without their folders and ".trace.jsonl"; where two would be alike, the paths.
std::vector<std::string> TraceNames(const std::vector<std::string>& paths);

// What a command line's word for a recording says is to be read: "-" is stdin.
std::string TracePath(const std::string& word);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TRACE_NAME_H_
