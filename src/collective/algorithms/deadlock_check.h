#pragma once

#include <string>

#include "strata/collective/schedule.h"

namespace strata::collective {

/// Who would wait for ever if every rank sent and received one message at a time, each in the order
/// of its steps; empty if they do not deadlock. The executor lets few messages be on their way at
/// once, so where this is empty no thread waits for ever there either.
std::string find_deadlock(const Schedule& schedule);

}  // namespace strata::collective
