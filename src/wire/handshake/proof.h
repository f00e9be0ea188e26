#pragma once

#include <string>
#include <string_view>

#include "strata/wire/security.h"

namespace strata::wire {

/// The two ends of a connection. What one proves is no proof of the other, so that it cannot be
/// sent back to where it came from.
enum class End { kDialer, kListener };

/// The proof that `end` knows the secret, made of both hellos as they were sent. Each has random
/// bytes of its sender, so a recorded proof fits no other connection; a hello that was changed
/// on the way fits no proof.
std::string proof_of(End end, const JobSecret& secret, std::string_view dialers_hello,
                     std::string_view listeners_hello);

}  // namespace strata::wire
