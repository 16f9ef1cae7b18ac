// A picture as a page of its own: no other file, no network, light or dark as the reader has it,
// and the values under the pointer.
//
// Threading: a pure function.
#ifndef STAGELOAD_CLIENT_CTL_PLOT_HTML_H_
#define STAGELOAD_CLIENT_CTL_PLOT_HTML_H_

#include <string>

#include "client/ctl/plot_picture.h"

namespace stageload::ctl {

std::string HtmlPage(const PlotPicture& picture);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PLOT_HTML_H_
