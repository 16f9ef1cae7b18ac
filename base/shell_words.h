// A command as one would type it into a shell.
//
// Threading: pure functions.
#ifndef STAGELOAD_BASE_SHELL_WORDS_H_
#define STAGELOAD_BASE_SHELL_WORDS_H_

#include <string>
#include <vector>

namespace stageload {

// "sh -c 'a && b'": what sh, bash and zsh read as these very words. One with a control character is
// written as $'a\n', which bash, zsh and ksh know.
std::string ShellWords(const std::vector<std::string>& argv);

}  // namespace stageload

#endif  // STAGELOAD_BASE_SHELL_WORDS_H_
