#pragma once

#include "strata/core/json.h"
#include "strata/strategies/server_dataset.h"

namespace strata::standalone {

/// @throws Error  kInvalidArgument: options that describe no dataset.
void check_dataset(const ServerDatasetOptions& options);

Json to_json(const ServerDatasetOptions& options);
/// Checked. @throws Error  kDataLoss, kInvalidArgument.
ServerDatasetOptions server_dataset_of(const Json& json);

}  // namespace strata::standalone
