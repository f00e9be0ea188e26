#pragma once

#include "ps/request.h"
#include "strata/ps/push.h"

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

}  // namespace strata::ps
