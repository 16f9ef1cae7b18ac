// A picture drawn by gnuplot, which is no part of us: found in PATH, told what to draw on its
// stdin.
//
// Threading: GnuplotScript is pure; RunGnuplot blocks its thread, and SIGPIPE must be ignored.
#ifndef STAGELOAD_CLIENT_CTL_PLOT_GNUPLOT_H_
#define STAGELOAD_CLIENT_CTL_PLOT_GNUPLOT_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/ctl/plot_picture.h"

namespace stageload::ctl {

enum class GnuplotFormat { kSvg, kPng };

// All data is in it; what it draws goes to its stdout.
std::string GnuplotScript(const PlotPicture& picture, GnuplotFormat format);

// The file that the script draws, whole. NotFound says how to install gnuplot; Internal has what it
// said on stderr.
absl::StatusOr<std::string> RunGnuplot(const std::string& script, GnuplotFormat format);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PLOT_GNUPLOT_H_
