// What may come next on a command line, from the tree of commands itself: whatever is added to it
// completes, too.
//
// Threading: a pure function, but for what `live` does.
#ifndef STAGELOAD_CLIENT_CTL_COMPLETION_H_
#define STAGELOAD_CLIENT_CTL_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace stageload::ctl {

struct Candidate {
  std::string word;
  std::string what;  // for people; zsh and fish show it
};

// What only a daemon knows. Each may be slow, and is called at most once.
struct LiveValues {
  // Jobs on which the command can act, such as those that have ended for "retry"; of an option such
  // as "--after", those that it can name.
  std::function<std::vector<Candidate>(const std::string& command_or_option)> jobs;
  std::function<std::vector<Candidate>()> groups;
  std::function<std::vector<Candidate>()> profiles;
};

struct Completion {
  enum class Then {
    kWords,    // one of the candidates
    kFiles,    // a file: the shell knows best how its names are completed
    kFolders,  // likewise
    kCommand,  // a command line of the user's, whose first word is at `command_at`
  };
  Then then = Then::kWords;
  std::size_t command_at = 0;
  std::vector<Candidate> candidates;
};

// `words` is what stands after the program's name; the last, which may be empty, is completed. A
// command line of the user's comes after the options of `takers`.
Completion Complete(const CLI::App& root, const std::vector<const CLI::App*>& takers,
                    const std::vector<std::string>& words, const LiveValues& live);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_COMPLETION_H_
