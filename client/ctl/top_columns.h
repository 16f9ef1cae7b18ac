// The columns of `top`'s table of clients: which of them a width has room for, and what stands in
// them.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_TOP_COLUMNS_H_
#define STAGELOAD_CLIENT_CTL_TOP_COLUMNS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/ctl/print.h"
#include "client/ctl/top_model.h"
#include "client/ctl/top_picture.h"

namespace stageload::ctl {

// Of another colour than the chosen row, where there are colours.
inline constexpr Style kTitle{.ink = Ink::kCyan, .reverse = true};
inline constexpr Style kTitleBold{.ink = Ink::kCyan, .bold = true, .reverse = true};

enum class ColumnOf {
  kId,
  kState,
  kName,
  kFootprint,
  kDeclared,
  kCharge,  // a bar and percent
  kBudget,  // both figures
  kSwapped,
  kProcesses,
  kTime,
  kStage,
  kNotes,  // leases and gauges
};

struct PlacedColumn {
  ColumnOf what;
  std::size_t width;
};

// In their order, one blank between them. What others have to say in kStage and kNotes is known, so
// that no room is given to columns that are empty.
std::vector<PlacedColumn> ColumnsFor(std::size_t width,
                                     const std::vector<const v1::ClientSample*>& clients);
bool Has(const std::vector<PlacedColumn>& columns, ColumnOf what);

void PutTitles(PictureLine& line, const std::vector<PlacedColumn>& columns, SortBy sort_by,
               bool reversed, bool utf8);
void PutClient(PictureLine& line, const std::vector<PlacedColumn>& columns,
               const v1::ClientSample& client, absl::Time now, bool chosen, bool utf8);

// Green, yellow over 80 % of its budget, red over it.
Ink InkOfCharge(const v1::ClientSample& client);
Ink InkOf(Colour colour);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TOP_COLUMNS_H_
