// In place of ucx_*.cc where UCX is missing.
#include "strata/core/error.h"
#include "wire/ucx/ucx_transport.h"

namespace strata::wire {

bool has_ucx_transport() { return false; }

std::unique_ptr<Transport> make_ucx_transport(const UcxOptions&) {
  strata::detail::throw_error(ErrorCode::kUnimplemented,
                              "[wire] make_ucx_transport: this build has no UCX; install it "
                              "(Debian: libucx-dev) and build again");
}

}  // namespace strata::wire
