// A picture as SVG inside a page, which gives its classes their colours.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_PLOT_SVG_H_
#define STAGELOAD_CLIENT_CTL_PLOT_SVG_H_

#include <string>
#include <string_view>

#include "client/ctl/plot_picture.h"

namespace stageload::ctl {

// For text and attributes of HTML and XML.
std::string EscapedMarkup(std::string_view text);

// The class of its shapes: "footprint", "stage2".
const char* ClassOf(Role role);

// An <svg> element.
std::string SvgElement(const PlotPicture& picture);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PLOT_SVG_H_
