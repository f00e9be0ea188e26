#include "strata/core/error.h"
#include "tools/commands.h"

namespace strata::tools {

int bench_main(int, char**) {
  throw Error(ErrorCode::kUnimplemented, "[strata bench] this build has no benchmarks");
}

}  // namespace strata::tools
