// The commands and options of the program as a part of its manual page: mdoc(7), which groff and
// mandoc read.
//
// Threading: a pure function.
#ifndef STAGELOAD_CLIENT_CTL_MAN_PAGE_H_
#define STAGELOAD_CLIENT_CTL_MAN_PAGE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace stageload::ctl {

// The options that all commands have, then a subsection for each command: how it is called, what it
// does, its options, and what help says below them. A command line of the user's comes after those
// in `takers`. What help hides is left out.
std::string ManPageCommands(const CLI::App& root, const std::vector<const CLI::App*>& takers);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_MAN_PAGE_H_
