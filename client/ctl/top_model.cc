// Frames in, rows and actions out.
#include "client/ctl/top_model.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/ctl/json.h"
#include "client/ctl/print_text.h"
#include "client/ctl/telemetry_text.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kKeptEvents = 200;
constexpr absl::Duration kMessageTime = absl::Seconds(8);
// A daemon that answers misses a sample now and then, and takes longer for an action while the
// machine swaps.
constexpr int kMissedSamples = 4;
constexpr absl::Duration kLeastSilence = absl::Seconds(3);
constexpr absl::Duration kAnswerWithin = absl::Seconds(2);
constexpr std::array<int, 4> kSpanMinutes = {1, 5, 15, 60};

const char* Name(Verb verb) {
  switch (verb) {
    case Verb::kSuspend:
      return "suspend";
    case Verb::kResume:
      return "resume";
    case Verb::kCancel:
      return "cancel";
    case Verb::kHold:
      return "hold";
    case Verb::kRelease:
      return "release";
  }
  return "?";
}

double ChargeShare(const v1::ClientSample& client) {
  const auto charge = static_cast<double>(client.charge_bytes());
  return client.swap_budget_bytes() > 0
             ? charge / static_cast<double>(client.swap_budget_bytes())
             : charge * 1e9;  // without any budget, every byte is over it
}

// Whether `a` stands before `b`: the largest first where there is a size.
bool Before(SortBy by, const v1::ClientSample& a, const v1::ClientSample& b) {
  switch (by) {
    case SortBy::kId:
      return a.job_id() < b.job_id();
    case SortBy::kState:
      return a.state() < b.state();
    case SortBy::kName:
      return std::string(a.name()) < std::string(b.name());
    case SortBy::kFootprint:
      return a.footprint_bytes() > b.footprint_bytes();
    case SortBy::kDeclared:
      return a.memory_bytes() > b.memory_bytes();
    case SortBy::kCharge:
      return ChargeShare(a) > ChargeShare(b);
    case SortBy::kProcesses:
      return a.processes() > b.processes();
    case SortBy::kStart:
      return a.start_time_ns() < b.start_time_ns();
  }
  return false;
}

// Whether they are one event: a frame and the store tell its time a little differently.
bool Same(const v1::Event& a, const v1::Event& b) {
  constexpr std::int64_t kApart = 1'000'000'000;
  return a.job_id() == b.job_id() && a.time_ns() - b.time_ns() < kApart &&
         b.time_ns() - a.time_ns() < kApart && std::string(a.kind()) == std::string(b.kind()) &&
         std::string(a.text()) == std::string(b.text());
}

}  // namespace

void TopModel::Connected(v1::GetVersionResponse daemon) { daemon_ = std::move(daemon); }

void TopModel::Lost(std::string why, absl::Time now) {
  if (loss_) {
    loss_->why = std::move(why);
  } else {
    loss_ = Loss{std::move(why), now};
  }
}

void TopModel::Live(v1::Frame frame) {
  loss_.reset();
  history_.AddNewest(PointOf(frame));
  swap_rate_.Add(frame);
  AddEvents({frame.events().begin(), frame.events().end()});
  if (paused_) {
    next_ = std::move(frame);
  } else {
    Show(std::move(frame));
  }
}

void TopModel::AddEvents(const std::vector<v1::Event>& events) {
  for (const v1::Event& event : events) {
    const bool known = std::any_of(events_.begin(), events_.end(),
                                   [&](const v1::Event& other) { return Same(other, event); });
    if (known) continue;
    events_.insert(
        std::find_if(events_.begin(), events_.end(),
                     [&](const v1::Event& other) { return other.time_ns() <= event.time_ns(); }),
        event);
  }
  if (events_.size() > kKeptEvents) events_.resize(kKeptEvents);
}

void TopModel::Asked(const Action& action, absl::Time now) { unanswered_.push_back({action, now}); }

void TopModel::Forget(const Action& action) {
  const auto asked = std::find_if(unanswered_.begin(), unanswered_.end(),
                                  [&](const Request& request) { return request.action == action; });
  if (asked != unanswered_.end()) unanswered_.erase(asked);
}

void TopModel::Answered(const Action& action, const v1::Job& job, absl::Time now) {
  Forget(action);
  const bool released = action.verb == Verb::kRelease;
  const bool held = action.verb == Verb::kHold;
  message_ = Message{absl::StrCat("job ", job.id(),
                                  held       ? " is held"
                                  : released ? " is released"
                                             : absl::StrCat(" is ", Word(job.state()))),
                     false, now + kMessageTime};
}

void TopModel::Failed(const Action& action, const std::string& why) {
  Forget(action);
  message_ = Message{
      absl::StrCat("cannot ", Name(action.verb), " job ", action.job, ": ", Printable(why)), true};
}

void TopModel::Tick(absl::Time now) {
  if (message_ && message_->until <= now) message_.reset();
}

// While the screen is paused, one that is not shown.
const v1::Frame* TopModel::Newest() const { return next_ ? &*next_ : frame(); }

std::optional<absl::Duration> TopModel::Silence(absl::Time now) const {
  const v1::Frame* newest = Newest();
  if (newest == nullptr || loss_) return std::nullopt;
  const absl::Duration expected = std::max(interval_, absl::Nanoseconds(newest->interval_ns()));
  const absl::Duration silence = now - absl::FromUnixNanos(newest->time_ns());
  if (silence <= std::max(kLeastSilence, kMissedSamples * expected)) return std::nullopt;
  return silence;
}

absl::Time TopModel::ShownTime(absl::Time now) const {
  const bool is_old = frame() != nullptr && (loss_ || Silence(now));
  return is_old ? absl::FromUnixNanos(Newest()->time_ns()) : now;
}

std::string TopModel::Unanswered(absl::Time now) const {
  if (unanswered_.empty() || now - unanswered_.front().since < kAnswerWithin) return "";
  const Action& oldest = unanswered_.front().action;
  const std::size_t more = unanswered_.size() - 1;
  return absl::StrCat("asked to ", Name(oldest.verb), " job ", oldest.job,
                      more > 0 ? absl::StrCat(", and ", more, " more") : "", ": no answer yet");
}

absl::Duration TopModel::graph_span() const { return absl::Minutes(kSpanMinutes[zoom_]); }

std::string TopModel::question() const { return question_ ? question_->text : ""; }

std::optional<std::size_t> TopModel::chosen() const {
  if (RowCount() == 0) return std::nullopt;
  return chosen_row_;
}

std::size_t TopModel::RowCount() const {
  return shown_ ? clients_.size() + static_cast<std::size_t>(shown_->waiting_size()) : 0;
}

RowKey TopModel::KeyAt(std::size_t row) const {
  if (row < clients_.size()) return {clients_[row]->job_id(), 0, false};
  const v1::WaitingRequest& request = shown_->waiting(static_cast<int>(row - clients_.size()));
  return {request.job_id(), request.lease_id(), true};
}

std::string TopModel::NameAt(std::size_t row) const {
  return Printable(
      row < clients_.size()
          ? std::string(clients_[row]->name())
          : std::string(shown_->waiting(static_cast<int>(row - clients_.size())).name()));
}

void TopModel::Show(v1::Frame frame) {
  shown_ = std::move(frame);
  Sort();
}

void TopModel::Sort() {
  clients_.clear();
  if (!shown_) return;
  for (const v1::ClientSample& client : shown_->clients()) clients_.push_back(&client);
  std::sort(clients_.begin(), clients_.end(),
            [this](const v1::ClientSample* a, const v1::ClientSample* b) {
              const auto& [first, second] = reversed_ ? std::pair(b, a) : std::pair(a, b);
              if (Before(sort_by_, *first, *second)) return true;
              if (Before(sort_by_, *second, *first)) return false;
              return a->job_id() < b->job_id();
            });
  FindChosen();
}

void TopModel::Choose(std::size_t row) {
  chosen_row_ = row;
  chosen_ = KeyAt(row);
}

// The choice stays with its job, wherever that has gone; a job that started stays chosen, too.
void TopModel::FindChosen() {
  const std::size_t rows = RowCount();
  if (rows == 0) return;
  std::optional<std::size_t> same_job;
  for (std::size_t row = 0; row < rows; ++row) {
    const RowKey key = KeyAt(row);
    if (key == chosen_) {
      chosen_row_ = row;
      return;
    }
    if (key.job == chosen_.job && !same_job) same_job = row;
  }
  Choose(same_job.value_or(std::min(chosen_row_, rows - 1)));
}

void TopModel::Move(std::ptrdiff_t rows) {
  if (RowCount() == 0) return;
  const auto last = static_cast<std::ptrdiff_t>(RowCount()) - 1;
  const auto row = static_cast<std::ptrdiff_t>(chosen_row_) + rows;
  Choose(static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(row, 0, last)));
}

std::optional<Action> TopModel::Press(Key key) {
  message_.reset();
  if (question_) return Answer(key);
  if (std::exchange(help_, false)) return std::nullopt;
  const auto page = static_cast<std::ptrdiff_t>(std::max<std::size_t>(page_, 1));
  switch (key) {
    case kKeyUp:
    case 'k':
      Move(-1);
      break;
    case kKeyDown:
    case 'j':
      Move(1);
      break;
    case kKeyPageUp:
      Move(-page);
      break;
    case kKeyPageDown:
    case ' ':
      Move(page);
      break;
    case kKeyHome:
    case 'g':
      Move(-static_cast<std::ptrdiff_t>(RowCount()));
      break;
    case kKeyEnd:
    case 'G':
      Move(static_cast<std::ptrdiff_t>(RowCount()));
      break;
    case 's':
      sort_by_ = static_cast<SortBy>((static_cast<int>(sort_by_) + 1) % kSortColumns);
      Sort();
      break;
    case 'S':
      sort_by_ =
          static_cast<SortBy>((static_cast<int>(sort_by_) + kSortColumns - 1) % kSortColumns);
      Sort();
      break;
    case 'r':
      reversed_ = !reversed_;
      Sort();
      break;
    case '+':
    case '=':
      zoom_ = zoom_ > 0 ? zoom_ - 1 : 0;
      break;
    case '-':
      zoom_ = std::min(zoom_ + 1, kSpanMinutes.size() - 1);
      break;
    case 'z':
      return Ask(Verb::kSuspend);
    case 'c':
      return Ask(Verb::kResume);
    case 'x':
      return Ask(Verb::kCancel);
    case 'h':
      return HoldOrRelease();
    case 'p':
      paused_ = !paused_;
      if (!paused_ && next_) Show(*std::exchange(next_, std::nullopt));
      break;
    case '?':
      help_ = true;
      break;
    case 'q':
      quit_ = true;
      break;
    default:
      break;
  }
  return std::nullopt;
}

std::optional<Action> TopModel::Ask(Verb verb) {
  if (RowCount() == 0) {
    message_ = Message{"there is no job to choose", true};
    return std::nullopt;
  }
  const Action action{verb, chosen_.job};
  if (verb != Verb::kCancel) return action;
  question_ = Question{
      action, absl::StrCat("cancel job ", action.job, " (", NameAt(chosen_row_), ")? y/n")};
  return std::nullopt;
}

std::optional<Action> TopModel::Answer(Key key) {
  const Question asked = *std::exchange(question_, std::nullopt);
  if (key == 'y' || key == 'Y') return asked.action;
  message_ = Message{absl::StrCat("job ", asked.action.job, " is not cancelled")};
  return std::nullopt;
}

std::optional<Action> TopModel::HoldOrRelease() {
  const bool held = RowCount() > 0 && chosen_row_ >= clients_.size() &&
                    IsHeld(shown_->waiting(static_cast<int>(chosen_row_ - clients_.size())));
  return Ask(held ? Verb::kRelease : Verb::kHold);
}

}  // namespace stageload::ctl
