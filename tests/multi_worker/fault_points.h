#pragma once

#include <cstdint>
#include <string_view>

namespace strata::test {

/// What the environment variable STRATA_TEST_FAULT wants to happen to this process, and when:
///
///     kill collective 5 12
///
/// SIGKILL at the 12th step of a protocol after phase "collective" 5 has begun, or at the end of
/// the phase, if there are fewer. A step is a message that is sent, a connection, one or more
/// messages that have come, a sleep or a call in shared memory, a file that is synced or renamed:
/// calls of the system, which this program's own functions of the same names count. `stop` is
/// SIGSTOP; `cut` ends all TCP connections of this process.
///
/// It prints "fault <time>" first: nanoseconds of the steady clock, which all processes share.
void begin_phase(std::string_view name, int64_t number = 0);
void end_phase(std::string_view name, int64_t number = 0);

}  // namespace strata::test
