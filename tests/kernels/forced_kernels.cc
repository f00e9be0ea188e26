// The tests are of this library's kernels, whatever the table of this processor chooses.
#include <cstdlib>

namespace {

[[maybe_unused]] const int kForced = ::setenv("STRATA_KERNELS", "strata", /*overwrite=*/0);

}  // namespace
