#pragma once

namespace strata::data::detail {

/// Makes libtorch's operators run on the calling thread alone, for this thread only, so that input
/// does not take cores from training. at::set_num_threads would change other threads' default too.
void use_single_thread();

}  // namespace strata::data::detail
