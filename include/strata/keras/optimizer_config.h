#pragma once

#include <memory>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/optim/optimizer.h"
#include "strata/optim/schedule.h"

namespace strata::schedules {

/// A number, or an object of `keras.optimizers.schedules`.
/// @throws Error kUnimplemented: a function of yours, which no file can hold.
STRATA_API Json to_config(const Schedule& schedule);
/// @throws Error kDataLoss: neither. kUnimplemented: another schedule; lists those there are.
STRATA_API void from_config(const Json& json, Schedule& schedule);

}  // namespace strata::schedules

namespace strata::keras {

/// `{"module": "keras.optimizers", "class_name": "Adam", "config": {...}, "registered_name": null}`
/// with what Keras's `get_config` gives; the learning rate is that of the next step.
/// @throws Error kUnimplemented: a class of yours, or a learning rate that is a function of yours.
STRATA_API Json to_config(const optimizers::Optimizer& optimizer);

/// An optimizer without variables, from what Keras writes, or from a name ("adam", "rmsprop"; upper
/// and lower case are the same). Options that are absent have Keras's defaults.
/// @throws Error  kDataLoss: no optimizer's JSON, a value of another type.
///                kUnimplemented: an optimizer that strata does not have (lists those there are),
///                or an option that it does not know; names optimizer and option.
STRATA_API std::unique_ptr<optimizers::Optimizer> optimizer_from_config(const Json& json);

}  // namespace strata::keras
