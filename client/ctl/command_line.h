// Where our options end and the user's command begins. `submit --memory 4G python train.py --lr 1`
// must not read --lr as ours, so argv is cut before CLI11 sees it.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_COMMAND_LINE_H_
#define STAGELOAD_CLIENT_CTL_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace stageload::ctl {

struct CommandLine {
  std::vector<std::string> ours;
  std::vector<std::string> command;
};

// Cuts `arguments` (without the program's name) at the first `--`, which is dropped, or at the
// first word after one of `takers` that is neither an option nor an option's value. Without a taker
// all is ours.
CommandLine Split(const CLI::App& app, const std::vector<const CLI::App*>& takers,
                  const std::vector<std::string>& arguments);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_COMMAND_LINE_H_
