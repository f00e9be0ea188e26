#pragma once

namespace strata::bench {

/// Nanoseconds that a message from one core to the other and back takes: they write to one line of
/// memory in turn. On a virtual machine it changes whenever the host moves its cores, and with it
/// the speed of whatever replicas share.
/// @param first, second  Cores that this process may use.
/// Cost: both cores for some milliseconds.
double core_round_trip(int first, int second);

}  // namespace strata::bench
