// Places in the queue, against counting them one by one.
#include "daemon/core/rank.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <set>

namespace stageload::core {
namespace {

std::int64_t Counted(const std::set<Rank>& ranks, const Rank& rank) {
  return std::distance(ranks.begin(), ranks.find(rank)) + 1;
}

TEST(Places, AreThoseOfTheOrderWhileRanksComeAndGo) {
  std::mt19937 random(7);
  Places places;
  std::set<Rank> ranks;
  for (int step = 0; step < 30'000; ++step) {
    // Grows to some thousands, then shrinks to nothing.
    const bool grow = step < 15'000 ? random() % 3 != 0 : random() % 3 == 0;
    if (grow) {
      const Rank rank{static_cast<int>(random() % 5) - 2, JobId{step + 1}};
      places.Insert(rank);
      ranks.insert(rank);
    } else if (!ranks.empty()) {
      auto which = ranks.lower_bound(Rank{static_cast<int>(random() % 5) - 2,
                                          JobId{static_cast<std::int64_t>(random() % 30'000)}});
      if (which == ranks.end()) which = ranks.begin();
      places.Erase(*which);
      ranks.erase(which);
    }
    if (step % 50 != 0 || ranks.empty()) continue;
    for (const Rank& rank :
         {*ranks.begin(), *ranks.rbegin(),
          *std::next(ranks.begin(), static_cast<std::ptrdiff_t>(random() % ranks.size()))}) {
      ASSERT_EQ(places.Of(rank), Counted(ranks, rank)) << "step " << step;
    }
  }
}

TEST(Places, OfALongQueueAreThoseOfItsOrderAtEveryPlace) {
  Places places;
  for (int id = 5000; id >= 1; --id) places.Insert({0, JobId{id}});
  for (int id = 1; id <= 5000; ++id) ASSERT_EQ(places.Of({0, JobId{id}}), id);
  for (int id = 1; id <= 2500; ++id) places.Erase({0, JobId{id}});
  for (int id = 2501; id <= 5000; ++id) ASSERT_EQ(places.Of({0, JobId{id}}), id - 2500);
}

}  // namespace
}  // namespace stageload::core
