// A picture drawn by gnuplot, which is no part of us: found in PATH, told what to draw on its
// stdin.
//
// Threading: GnuplotScript is pure; RunGnuplot blocks its thread, and SIGPIPE must be ignored.
#ifndef STAGELOAD_CLIENT_CTL_PLOT_GNUPLOT_H_
#define STAGELOAD_CLIENT_CTL_PLOT_GNUPLOT_H_

#include <string>

#include "absl/status/status.h"
#include "client/ctl/plot_picture.h"

namespace stageload::ctl {

enum class GnuplotFormat { kSvg, kPng };

// All data is in it; what it draws goes to its stdout.
std::string GnuplotScript(const PlotPicture& picture, GnuplotFormat format);

// Runs the script, with its stdout into `fd`. NotFound says how to install it; Internal has what it
// said on stderr.
absl::Status RunGnuplot(const std::string& script, int fd);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PLOT_GNUPLOT_H_
