#pragma once

#include <memory>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/optim/optimizer.h"
#include "strata/optim/schedule.h"

namespace strata::schedules {

/// Returns a number, or an object of `keras.optimizers.schedules`.
/// @throws Error kUnimplemented: a user-defined function, which files cannot have.
STRATA_API Json to_config(const Schedule& schedule);
/// @throws Error kDataLoss: neither. kUnimplemented: another schedule; lists the known ones.
STRATA_API void from_config(const Json& json, Schedule& schedule);

}  // namespace strata::schedules

namespace strata::keras {

/// Returns `{"module": "keras.optimizers", "class_name": "Adam", "config": {...},
/// "registered_name": null}` with Keras's `get_config`; the learning rate is that of the next step.
/// @throws Error kUnimplemented: a user-defined class, or a learning rate that is a user-defined
/// function.
STRATA_API Json to_config(const optimizers::Optimizer& optimizer);

/// Makes an optimizer without variables, from Keras's JSON, or from a name ("adam", "rmsprop", in
/// any case). Absent options have Keras's defaults.
/// @throws Error  kDataLoss: no optimizer's JSON, a value of another type.
///                kUnimplemented: an optimizer that strata does not have (lists the known ones), or
///                an unknown option; names optimizer and option.
STRATA_API std::unique_ptr<optimizers::Optimizer> optimizer_from_config(const Json& json);

}  // namespace strata::keras
