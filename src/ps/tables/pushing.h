#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ps/tables/request.h"
#include "strata/ps/table.h"

namespace strata::ps {

/// What every push to a table says.
inline Request push_request(RequestKind kind, const std::string& table, const PushOptions& options,
                            uint64_t sequence) {
  return {.kind = kind,
          .table = table,
          .sequence = sequence,
          .learning_rate = options.learning_rate,
          .weight_decay = options.weight_decay,
          .clip_value = options.clip_value,
          .scale = options.scale,
          .weight = options.weight,
          .encoding = static_cast<PushEncoding>(options.precision)};
}

/// What all servers' replies say of a push. @param versions, steps  By server: as a table keeps
/// them.
inline PushResult take_replies(const std::vector<Reply>& replies, std::vector<int64_t>& versions,
                               std::vector<int64_t>& steps) {
  PushResult result;
  for (size_t server = 0; server < replies.size(); ++server) {
    versions[server] = replies[server].version;
    steps[server] = replies[server].step;
    result.applied = result.applied && !replies[server].flag;
  }
  result.version = *std::ranges::min_element(versions);
  return result;
}

}  // namespace strata::ps
