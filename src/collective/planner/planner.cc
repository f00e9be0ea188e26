#include "collective/planner/planner.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <utility>

#include "strata/core/error.h"

namespace strata::collective {
namespace {

constexpr int64_t kLeastBytes = 64;
constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr int64_t kLeastPartBytes = 512;  // a segment's message below this is all overhead
constexpr int kMostSegments = 64;
constexpr int64_t kMostSteps = 200'000;  // of a schedule: for larger groups fewer are considered
constexpr int64_t kProvenSteps = 20'000;
// Between several hosts no message is longer than this, or than twice what the line holds. Prices
// do not show why: a TCP connection that has rested begins slowly, and ranks whose long messages
// collide fall out of step. With 8 hosts that costs 10 % to 25 % of the lines.
constexpr double kMostMessageBytes = 128 << 10;
constexpr double kNever = std::numeric_limits<double>::infinity();  // seconds
constexpr double kNearly = 1.02;  // faster by less is not worth looking for, or another row

bool is_auto(const std::string& name) {
  return name.size() == 4 &&
         std::equal(name.begin(), name.end(), "AUTO",
                    [](unsigned char a, char b) { return std::toupper(a) == b; });
}

int64_t count_steps(const Schedule& schedule) {
  int64_t count = 0;
  for (const auto& steps : schedule.ranks) count += static_cast<int64_t>(steps.size());
  return count;
}

std::string bytes_text(int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, value == std::floor(value) ? "%.0f %s" : "%.1f %s", value,
                units[unit]);
  return text;
}

std::string name_of(const std::string& algorithm, int segments) {
  return segments == 1 ? algorithm : str_cat(algorithm, "/", segments);
}

}  // namespace

namespace {

Algorithms with(Algorithms known, const std::vector<Algorithm>& more) {
  for (const Algorithm& algorithm : more) known.add(algorithm);
  return known;
}

}  // namespace

Planner::Planner(Placement placement, LinkModel links, CommunicationOptions options,
                 Algorithms algorithms)
    : placement_(std::move(placement)),
      links_(std::move(links)),
      options_(std::move(options)),
      algorithms_(with(std::move(algorithms), options_.algorithms)) {
  placement_.check();
  const auto n = static_cast<size_t>(placement_.num_ranks());
  STRATA_CHECK(links_.pairs.empty() || links_.pairs.size() == n * n, kInvalidArgument,
               "[planner] got ", links_.pairs.size(), " links between pairs; expected ", n * n,
               ", one for each two of ", n, " ranks");
  if (is_auto(options_.implementation)) return;
  bool known = false;
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter,
                                      Collective::kAllGather, Collective::kBroadcast}) {
    known = known || algorithms_.find(collective, options_.implementation.word()) != nullptr;
  }
  std::set<std::string> names;
  for (const Algorithm& algorithm : algorithms_.all()) names.insert(algorithm.name);
  std::string list;
  for (const std::string& name : names) list += str_cat(list.empty() ? "" : ", ", name);
  STRATA_CHECK(known, kInvalidArgument, "[planner] implementation: got '", options_.implementation,
               "'; expected AUTO, or one of ", list, " (in any case)");
  if (const Algorithm* found =
          algorithms_.find(Collective::kAllReduce, options_.implementation.word())) {
    STRATA_CHECK(
        found->fixed_order || options_.order == Order::kAny, kInvalidArgument,
        "[planner] implementation: ", options_.implementation,
        " adds in another order than the fixed tree; set order = Order::kAny, which gives up "
        "equal bits on every placement, or use AUTO");
    STRATA_CHECK(!found->fits || found->fits(request({})), kInvalidArgument,
                 "[planner] implementation: ", options_.implementation, " does not fit ",
                 placement_.num_replicas(), " replicas on ", placement_.num_ranks(),
                 " ranks; use AUTO");
  }
}

Request Planner::request(const Wanted& wanted) const {
  return {.collective = wanted.collective,
          .placement = placement_,
          .order = options_.order,
          .root = wanted.root};
}

std::vector<const Algorithm*> Planner::allowed(const Request& request) const {
  std::vector<const Algorithm*> offered = algorithms_.offered(request);
  // A name is obeyed where the collective has such an algorithm; the others are planned.
  const Algorithm* named = algorithms_.find(request.collective, options_.implementation.word());
  if (named && std::ranges::count(offered, named) > 0) return {named};
  return offered;
}

std::shared_ptr<const Schedule> Planner::schedule(const Wanted& wanted, const Algorithm& algorithm,
                                                  int segments) const {
  auto& known = schedules_[{&algorithm, segments, wanted.root}];
  if (known) return known;
  if (segments > 1) {
    known = std::make_shared<const Schedule>(segmented(*schedule(wanted, algorithm, 1), segments));
    return known;
  }
  Schedule made = algorithm.make(request(wanted));
  const bool standard =
      Algorithms::standard().find(algorithm.collective, algorithm.name) != nullptr;
  if (!standard && count_steps(made) <= kProvenSteps) {
    const std::string fault = find_fault(made, request(wanted));
    STRATA_CHECK(fault.empty(), kInternal, "[planner] algorithm '", algorithm.name, "' for ",
                 collective_name(algorithm.collective), " of ", placement_.num_ranks(),
                 " ranks: ", fault, "; find_fault tells more of its schedules");
  }
  known = std::make_shared<const Schedule>(std::move(made));
  return known;
}

double Planner::price_of(const Wanted& wanted, const Candidate& candidate, double at_most) const {
  return price(*schedule(wanted, *candidate.algorithm, candidate.segments), placement_, links_,
               {.elements = wanted.elements,
                .element_bytes = wanted.element_bytes,
                .partial_bytes = wanted.partial_bytes},
               at_most);
}

/// Whether there may be so many segments, for this call.
bool Planner::can_cut(const Wanted& wanted, const Algorithm& algorithm, int segments) const {
  if (segments == 1) return true;
  // Parts of a scattered or gathered buffer are the ranks' and cannot be cut alike.
  if (!algorithm.pipelines || wanted.collective == Collective::kReduceScatter ||
      wanted.collective == Collective::kAllGather) {
    return false;
  }
  const std::shared_ptr<const Schedule> whole = schedule(wanted, algorithm, 1);
  const int64_t bytes = wanted.elements * wanted.element_bytes;
  return segments <= kMostSegments && bytes >= kLeastPartBytes * segments * whole->num_chunks() &&
         count_steps(*whole) * segments <= kMostSteps;
}

/// @param hint  What may well be the best, so that the others are found out soon.
Planner::Candidate Planner::best(const Wanted& wanted, const Candidate& hint) const {
  // By a lower bound of the price, so that most of the slow ones need not be priced.
  std::vector<std::pair<double, const Algorithm*>> algorithms;
  for (const Algorithm* algorithm : allowed(request(wanted))) {
    const double bound = least_price(*schedule(wanted, *algorithm, 1), placement_, links_,
                                     {.elements = wanted.elements,
                                      .element_bytes = wanted.element_bytes,
                                      .partial_bytes = wanted.partial_bytes});
    algorithms.push_back({bound, algorithm});
  }
  std::stable_sort(algorithms.begin(), algorithms.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Candidate best = hint;
  best.seconds = kNever;
  if (hint.algorithm) best.seconds = price_of(wanted, hint, best.seconds);
  for (const auto& [bound, algorithm] : algorithms) {
    if (kNearly * bound >= best.seconds) break;
    double last = kNever;
    int worse = 0;
    for (int segments = 1; can_cut(wanted, *algorithm, segments); segments *= 2) {
      // Twice the best: whether more segments make it faster must be seen.
      const double seconds = price_of(wanted, {algorithm, segments}, 2 * best.seconds);
      if (seconds < best.seconds) best = {algorithm, segments, seconds};
      worse = seconds < last || std::isinf(seconds) ? 0 : worse + 1;
      if (worse == 2 || best.seconds <= kNearly * bound) break;
      last = seconds;
    }
  }
  STRATA_DCHECK(best.algorithm != nullptr);
  return best;
}

/// The best at a size, or `other` where that is as good but for 2 %: fewer rows, and no noise in
/// them.
Planner::Candidate Planner::best_or(const Candidate& other, Wanted wanted, int64_t bytes) const {
  wanted.elements = std::max<int64_t>(1, bytes / wanted.element_bytes);
  const Candidate found = best(wanted, other);
  if (other.algorithm == nullptr || other == found) return found;
  const double most = kNearly * found.seconds;
  const double seconds = price_of(wanted, other, most);
  return seconds <= most ? Candidate{other.algorithm, other.segments, seconds} : found;
}

/// Finds to 6 % where the choice changes between two sizes, and adds a row for each change.
void Planner::refine(const Wanted& wanted, int64_t low, const Candidate& at_low, int64_t high,
                     const Candidate& at_high, std::vector<Row>& rows) const {
  if (at_low == at_high && high < low + low / 2) return;
  if (high - low <= low / 16 + wanted.element_bytes) {
    rows.push_back({low, at_low});
    return;
  }
  const int64_t middle = (low + high) / 2;
  Candidate at_middle = best_or(at_low, wanted, middle);
  if (!(at_middle == at_low)) at_middle = best_or(at_high, wanted, middle);
  refine(wanted, low, at_low, middle, at_middle, rows);
  refine(wanted, middle, at_middle, high, at_high, rows);
}

/// Bytes of the longest message between hosts, of a buffer's bytes.
double Planner::longest_message(const Wanted& wanted, const Algorithm& algorithm) const {
  const std::shared_ptr<const Schedule> whole = schedule(wanted, algorithm, 1);
  const std::vector<int>& hosts = placement_.host_of_rank;
  int most = 0;
  for (size_t rank = 0; rank < whole->ranks.size(); ++rank) {
    for (const Step& step : whole->ranks[rank]) {
      if (step.kind != Step::Kind::kSend) continue;
      if (hosts[static_cast<size_t>(step.peer)] != hosts[rank]) most = std::max(most, step.chunks);
    }
  }
  return static_cast<double>(most) / whole->num_chunks();
}

/// More segments where messages would be too long, see kMostMessageBytes.
void Planner::cut_long_messages(const Wanted& wanted, std::vector<Row>& rows) const {
  const std::set<int> hosts(placement_.host_of_rank.begin(), placement_.host_of_rank.end());
  const Link& line = links_.across_hosts;
  // Of two hosts each has one sender.
  if (hosts.size() <= 2 || line.bytes_per_second == 0) return;
  const double most = std::max(kMostMessageBytes, 2 * line.latency * line.bytes_per_second);
  std::vector<Row> cut;
  for (Row& row : rows) {
    const double longest = longest_message(wanted, *row.candidate.algorithm);
    while (longest > 0) {
      const double good_up_to = most * row.candidate.segments / longest;
      Wanted size = wanted;
      size.elements = static_cast<int64_t>(good_up_to) / wanted.element_bytes;
      if (good_up_to >= static_cast<double>(row.up_to) ||
          !can_cut(size, *row.candidate.algorithm, 2 * row.candidate.segments)) {
        break;
      }
      if (cut.empty() || good_up_to > static_cast<double>(cut.back().up_to)) {
        cut.push_back({static_cast<int64_t>(good_up_to), row.candidate});
        cut.back().candidate.seconds = price_of(size, row.candidate, kNever);
      }
      row.candidate.segments *= 2;
    }
    cut.push_back(row);
  }
  rows = std::move(cut);
}

const std::vector<Planner::Row>& Planner::table(const Wanted& wanted) const {
  std::vector<Row>& rows =
      tables_[{wanted.collective, wanted.element_bytes, wanted.partial_bytes, wanted.root}];
  if (!rows.empty()) return rows;
  const bool without_size = wanted.collective == Collective::kBarrier;
  int64_t size = kLeastBytes;
  Candidate candidate = best_or({}, wanted, size);
  while (size < kMostBytes && !without_size) {
    const Candidate next = best_or(candidate, wanted, size * 2);
    refine(wanted, size, candidate, size * 2, next, rows);
    candidate = next;
    size *= 2;
  }
  rows.push_back({std::numeric_limits<int64_t>::max(), candidate});
  cut_long_messages(wanted, rows);
  return rows;
}

Choice Planner::choose(const Wanted& wanted) const {
  const MutexLock lock(mutex_);
  const int64_t bytes = wanted.elements * wanted.element_bytes;
  const std::vector<Row>& rows = table(wanted);
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return bytes <= r.up_to; });
  const Candidate& found = row == rows.end() ? rows.back().candidate : row->candidate;
  return {.algorithm = found.algorithm->name,
          .segments = found.segments,
          .seconds = found.seconds,
          .schedule = schedule(wanted, *found.algorithm, found.segments)};
}

Choice Planner::choose_exhaustively(const Wanted& wanted) const {
  const MutexLock lock(mutex_);
  const Candidate found = best(wanted, {});
  return {.algorithm = found.algorithm->name,
          .segments = found.segments,
          .seconds = found.seconds,
          .schedule = schedule(wanted, *found.algorithm, found.segments)};
}

std::string Planner::describe(Collective collective) const {
  const MutexLock lock(mutex_);
  const std::set<int> hosts(placement_.host_of_rank.begin(), placement_.host_of_rank.end());
  std::string text =
      str_cat(collective_name(collective), " of ", placement_.num_replicas(), " replicas on ",
              placement_.num_ranks(), " ranks on ", hosts.size(), " hosts, ",
              options_.order == Order::kFixed ? "fixed" : "any", " order\n");
  for (const Row& row : table({.collective = collective})) {
    const std::string name = name_of(row.candidate.algorithm->name, row.candidate.segments);
    char line[128];
    if (row.up_to < kMostBytes) {
      std::snprintf(line, sizeof line, "  up to %10s: %-24s %10.3f ms\n",
                    bytes_text(row.up_to).c_str(), name.c_str(), row.candidate.seconds * 1e3);
    } else {
      std::snprintf(line, sizeof line, "  above           : %s\n", name.c_str());
    }
    text += line;
  }
  return text;
}

}  // namespace strata::collective
