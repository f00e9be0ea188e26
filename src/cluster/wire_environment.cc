#include "cluster/wire_environment.h"

#include "cluster/make_transport.h"

namespace strata::cluster {

std::optional<std::string> wire_from_environment(const Environment& environment) {
  auto wire = environment.get("STRATA_WIRE");
  if (wire) check_wire(*wire, "STRATA_WIRE");
  return wire;
}

}  // namespace strata::cluster
