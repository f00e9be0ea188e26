#include "strata/ps/placement.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "strata/cluster/roles.h"
#include "strata/core/device_name.h"
#include "strata/core/error.h"

namespace strata::ps {
namespace {

constexpr int64_t kAlignment = 64;  // bytes; as tensor::Arena aligns its tensors

// The server that the variable was put on by hand.
std::optional<int> asked_server(const VariableSpec& variable, int num_servers) {
  if (variable.device.empty()) return std::nullopt;
  const DeviceName device = DeviceName::parse(variable.device);
  STRATA_CHECK(!device.job || *device.job == cluster::kPs, kInvalidArgument,
               "[ps] place: got variable \"", variable.name, "\" for ", variable.device,
               "; expected job \"ps\" or none; leave variables of other jobs out");
  STRATA_CHECK(!device.task || *device.task < num_servers, kInvalidArgument,
               "[ps] place: got variable \"", variable.name, "\" for ", variable.device, " of ",
               num_servers, " servers; expected a task from 0 to ", num_servers - 1);
  return device.task;
}

int64_t element_bytes(const VariableSpec& variable) {
  return static_cast<int64_t>(c10::elementSize(variable.dtype));
}

class Placer {
 public:
  Placer(std::span<const VariableSpec> variables, int num_servers)
      : variables_(variables), bytes_(static_cast<size_t>(num_servers)) {}

  void give(size_t variable, int64_t begin, int64_t end, int server) {
    if (begin == end) return;
    pieces_.push_back({.variable = variable, .begin = begin, .end = end, .server = server});
    bytes_[static_cast<size_t>(server)] += (end - begin) * element_bytes(variables_[variable]);
  }
  void give_whole(size_t variable, int server) {
    give(variable, 0, num_elements(variables_[variable]), server);
  }
  void give_whole_to_emptiest(size_t variable) {
    give_whole(variable, static_cast<int>(std::ranges::min_element(bytes_) - bytes_.begin()));
  }

  // `group`, all of one dtype, as one range of bytes: each server in turn gets what it lacks.
  void spread(const std::vector<size_t>& group) {
    int64_t total = 0;
    for (const size_t variable : group) total += num_bytes(variables_[variable]);
    const std::vector<int64_t> shares = even_out(total);

    size_t server = 0;
    int64_t cut = shares[0];  // where this server's part of the range ends
    int64_t start = 0;        // where the variable does, in bytes
    for (const size_t variable : group) {
      const int64_t size = num_elements(variables_[variable]);
      const int64_t bytes = num_bytes(variables_[variable]);
      int64_t begin = 0;
      while (begin < size) {
        while (server + 1 < shares.size() && nearest_cut(variable, cut - start) <= begin)
          cut += shares[++server];
        const int64_t end = server + 1 < shares.size() ? nearest_cut(variable, cut - start) : size;
        give(variable, begin, end, static_cast<int>(server));
        begin = end;
      }
      start += bytes;
    }
  }

  Placement finish() && {
    std::ranges::sort(pieces_, {}, [](const Piece& p) { return std::tuple(p.variable, p.begin); });
    return {.pieces = std::move(pieces_), .server_bytes = std::move(bytes_)};
  }

 private:
  // What each server takes of `total` bytes so that the fullest ends as low as can be.
  std::vector<int64_t> even_out(int64_t total) const {
    std::vector<int64_t> sorted = bytes_;
    std::ranges::sort(sorted);
    int64_t takers = 0;  // the emptiest servers, which end at one level
    int64_t sum = total;
    for (const int64_t bytes : sorted) {
      if (takers > 0 && bytes * takers >= sum) break;
      sum += bytes;
      ++takers;
    }
    const int64_t level = sum / takers;
    int64_t rest = sum % takers;
    std::vector<int64_t> shares(bytes_.size());
    for (size_t i = 0; i < shares.size(); ++i) {
      if (bytes_[i] > level) continue;
      shares[i] = level - bytes_[i];
      if (rest > 0) {
        ++shares[i];
        --rest;
      }
    }
    return shares;
  }

  // The element of `variable` nearest to byte `position` where it may be cut; its ends count.
  int64_t nearest_cut(size_t variable, int64_t position) const {
    const VariableSpec& spec = variables_[variable];
    const int64_t size = num_elements(spec);
    const int64_t bytes = element_bytes(spec);
    const int64_t unit = spec.split == Split::kRows && !spec.shape.empty()
                             ? size / spec.shape.front()
                             : std::max<int64_t>(1, kAlignment / bytes);
    if (position <= 0) return 0;
    if (position >= size * bytes) return size;
    const int64_t below = position / (unit * bytes) * unit;
    const int64_t above = std::min(below + unit, size);
    return position - below * bytes <= above * bytes - position ? below : above;
  }

  std::span<const VariableSpec> variables_;
  std::vector<int64_t> bytes_;
  std::vector<Piece> pieces_;
};

// Those in the first list stay where they were put, the others find a place in this order.
void place_automatically(std::span<const VariableSpec> variables, int num_servers, Placer& placer) {
  std::vector<size_t> whole;
  std::vector<size_t> tables;
  std::vector<std::vector<size_t>> ranges;  // one a dtype
  for (size_t i = 0; i < variables.size(); ++i) {
    if (const auto server = asked_server(variables[i], num_servers)) {
      placer.give_whole(i, *server);
    } else if (variables[i].split == Split::kNever) {
      whole.push_back(i);
    } else if (variables[i].split == Split::kRows) {
      tables.push_back(i);
    } else {
      const auto same_dtype = std::ranges::find_if(ranges, [&](const auto& range) {
        return variables[range.front()].dtype == variables[i].dtype;
      });
      auto& range = same_dtype != ranges.end() ? *same_dtype : ranges.emplace_back();
      range.push_back(i);
    }
  }
  std::ranges::stable_sort(whole, std::greater{},
                           [&](size_t i) { return num_bytes(variables[i]); });
  for (const size_t i : whole) placer.give_whole_to_emptiest(i);
  for (const size_t i : tables) placer.spread({i});
  for (const auto& range : ranges) placer.spread(range);
}

int64_t count_parts(const VariableSpec& variable, const Partitioner& partitioner) {
  if (!partitioner || variable.shape.empty() || variable.shape.front() <= 1 ||
      variable.split == Split::kNever) {
    return 1;
  }
  const int64_t parts = partitioner(variable);
  STRATA_CHECK(parts >= 1, kInvalidArgument, "[ps] place: got ", parts,
               " parts from the partitioner for variable \"", variable.name,
               "\"; expected 1 or more");
  return std::min(parts, variable.shape.front());
}

void place_by_strategy(std::span<const VariableSpec> variables, int num_servers,
                       const PlacementOptions& options, Placer& placer) {
  const PlacementStrategy strategy =
      options.strategy ? options.strategy(num_servers) : round_robin(num_servers);
  for (size_t i = 0; i < variables.size(); ++i) {
    const VariableSpec& variable = variables[i];
    const std::optional<int> asked = asked_server(variable, num_servers);
    const int64_t parts = count_parts(variable, options.partitioner);
    const int64_t rows = variable.shape.empty() ? 1 : variable.shape.front();
    const std::vector<int64_t> offsets = split_rows(rows, parts);
    const int64_t row = rows == 0 ? 0 : num_elements(variable) / rows;
    VariableSpec part = variable;
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t begin = offsets[static_cast<size_t>(p)];
      const int64_t end = offsets[static_cast<size_t>(p) + 1];
      if (parts > 1) {
        part.name = part_name(variable.name, p);
        part.shape.front() = end - begin;
      }
      const int server = strategy(part);
      STRATA_CHECK(server >= 0 && server < num_servers, kInvalidArgument, "[ps] place: got server ",
                   server, " from the strategy for variable \"", part.name, "\"; expected 0 to ",
                   num_servers - 1);
      placer.give(i, begin * row, end * row, asked.value_or(server));
    }
  }
}

}  // namespace

double Placement::imbalance() const {
  const int64_t total = std::accumulate(server_bytes.begin(), server_bytes.end(), int64_t{0});
  if (total == 0) return 1;
  return static_cast<double>(std::ranges::max(server_bytes)) *
         static_cast<double>(server_bytes.size()) / static_cast<double>(total);
}

Placement place(std::span<const VariableSpec> variables, int num_servers,
                const PlacementOptions& options) {
  STRATA_CHECK(num_servers > 0, kInvalidArgument, "[ps] place: got ", num_servers,
               " servers; expected at least one; start tasks of job \"ps\"");
  for (const VariableSpec& variable : variables) (void)num_elements(variable);
  Placer placer(variables, num_servers);
  if (options.strategy || options.partitioner) {
    place_by_strategy(variables, num_servers, options, placer);
  } else {
    place_automatically(variables, num_servers, placer);
  }
  return std::move(placer).finish();
}

}  // namespace strata::ps
